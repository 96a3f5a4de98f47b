#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The modulefiles, installed where configure was told to: both kinds say the same, and environment-modules loads them.
. "$(dirname "$0")/check.sh"

# installed WORD…: under ./at, by a configure with these words; its program is this build's.
# The tests share what configure has found out about the machine.
installed() {
  at=$PWD/at
  mkdir -p build at/bin
  (cd build && "$srcdir/configure" --quiet --without-cuda --prefix="$at" --cache-file="$at/../../config.cache" "$@") > log 2>&1
  make -C build install-data >> log 2>&1
  ln -s "$hpctrain" at/bin/hpctrain
  version=$("$hpctrain" --version | sed -E 's/hpctrain ([^ ]+).*/\1/')
}

# with_modules STATUS COMMANDS: in a new shell that knows `module`; output in ./out and ./err.
modules_init=${MODULESHOME:-/usr/share/modules}/init/bash
with_modules() { expect_run "$1" bash -c ". $modules_init && module use $at/share/modulefiles && $2"; }
have_modules() {
  [ -e "$modules_init" ] && return
  echo "note  module load is not tested: no environment-modules here" >&2
  return 1
}

test_configure_fills_them() {
  installed
  local file=$at/share/modulefiles/hpctrain/$version
  expect_run 1 grep -n '@' "$file" "$file.lua"
  expect_line "$file" "^prepend-path PATH \{$at/bin\}\$"
  expect_line "$file.lua" "^prepend_path\(\"PATH\", \"$at/bin\"\)\$"
  expect_line "$file" '^foreach needed \{\} '
  make -C build uninstall-local > log
  [ ! -e "$file" ] && [ ! -e "$file.lua" ]
}

test_module_load_finds_the_program() {
  have_modules || return 0
  installed
  with_modules 0 'module load hpctrain && command -v hpctrain && hpctrain --version && ls $HPCTRAIN_JOBS && module unload hpctrain && ! command -v hpctrain'
  expect_out "^$at/bin/hpctrain\$"
  expect_out "^hpctrain $version"
  expect_out '^llama7b.slurm$'
  with_modules 0 'module whatis hpctrain; module help hpctrain'
  expect_err "hpctrain/$version *: *hpctrain $version: trains"
  expect_err '^hpctrain .* trains Llama-class models with MPI'
}

test_module_asks_for_those_it_was_built_with() {
  have_modules || return 0
  mkdir -p at/share/modulefiles/mpi
  printf '#%%Module1.0\n' > at/share/modulefiles/mpi/4
  installed --with-modules='mpi/4'
  with_modules 1 'MODULES_AUTO_HANDLING=0 module load hpctrain'
  expect_err 'mpi/4'
  with_modules 0 'module load mpi/4 hpctrain && command -v hpctrain'
}

# What Lmod would be asked to do, by stand-ins for its functions; --with-modules without names: those that are loaded.
test_lua_does_what_tcl_does() {
  local lua
  lua=$(command -v lua5.4 lua5.3 lua5.1 lua | head -n 1)
  [ -n "$lua" ] || { echo "note  the Lua modulefile is not run: no lua here" >&2; return 0; }
  LOADEDMODULES=mpi/4:cuda/13 installed --with-modules
  cat > stand_ins.lua << 'END'
for _, name in ipairs { "conflict", "depends_on", "prepend_path", "setenv" } do
  _G[name] = function(...) print(name, ...) end
end
function help() end
function whatis() end
dofile(arg[1])
END
  expect_run 0 "$lua" stand_ins.lua "$at/share/modulefiles/hpctrain/$version.lua"
  expect_equal "$(tr '\t' ' ' < out)" "conflict hpctrain
depends_on mpi/4
depends_on cuda/13
prepend_path PATH $at/bin
setenv HPCTRAIN_JOBS $at/share/hpctrain/jobs"
}

check_main "$@"
