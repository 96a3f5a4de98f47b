#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# jobs/install-deps.sh, with stand-ins for the programs that would change the machine.
. "$(dirname "$0")/check.sh"

# machine USER: a folder bin/ that is all of PATH: the usual tools; apt-get and apt-cache that note what they are asked;
# pkg-config that knows no module but those in ./modules; USER is what id -u prints.
machine() {
  local tool
  mkdir bin
  for tool in bash cat env grep sort tail sed gcc make autoconf automake mpirun python3; do ln -s "$(command -v $tool)" bin/; done
  for tool in bible clang-format; do stand_in $tool <<< 'exit 0'; done
  printf '%s\n' ompi-c hdf5-openmpi yaml-0.1 jansson pmix > modules
  stand_in id <<< "echo $1"
  stand_in pkg-config <<< 'grep -qxF -e "$2" modules'
  stand_in apt-get <<< 'echo "apt-get $*" >> asked; case "$*" in *update*) : > updated ;; esac'
  stand_in apt-cache <<< 'if [ "$1" = pkgnames ]; then echo libdnnl-dev; echo libdnnl3; else echo Package: "$2"; fi'
}
stand_in() {
  { echo '#!/bin/bash'; cat; } > "bin/$1"
  chmod +x "bin/$1"
}
# without MODULE: the machine lacks it.
without() { sed -i "/^$1\$/d" modules; }
install_deps() { expect_run "$1" env PATH="$PWD/bin" bash "$srcdir/jobs/install-deps.sh"; }

# oneDNN's library is looked up for real, so this machine may or may not have it; no test depends on it.
test_what_is_there_is_left_alone() {
  machine 0
  install_deps 0
  if [ -e asked ]; then expect_equal "$(grep -c 'install.*yaml\|install.*pmix' asked)" 0; fi
}

test_missing_package_is_installed_and_named() {
  machine 0
  without yaml-0.1
  install_deps 0
  expect_out '^packages  installing .*libyaml-dev'
  expect_line asked 'install .*libyaml-dev'
  [ ! -e updated ]
}

test_lists_are_fetched_when_they_lack_the_package() {
  machine 0
  without jansson
  stand_in apt-cache <<< '[ ! -e updated ] || echo Package: x'
  install_deps 0
  expect_out '^packages  apt-get update'
  expect_line asked 'install .*libjansson-dev'
}

test_stale_lists_are_fetched_again() {
  machine 0
  without jansson
  stand_in apt-get <<< 'echo "apt-get $*" >> asked; case "$*" in *update*) : > updated ;; *) [ -e updated ] ;; esac'
  install_deps 0
  expect_equal "$(grep -c install asked)" 2
}

test_user_goes_through_sudo() {
  machine 1000
  without pmix
  stand_in sudo <<< 'echo sudo >> asked; exec "$@"'
  install_deps 0
  expect_out 'libpmix-dev.* \(sudo\)'
  expect_line asked '^sudo$'
}

test_user_without_sudo_is_told() {
  machine 1000
  without pmix
  install_deps 3
  expect_err '^error: missing: .*libpmix-dev'
  expect_err '^help: as root'
  [ ! -e asked ]
}

test_system_without_apt_is_told() {
  machine 0
  without pmix
  rm bin/apt-get
  install_deps 3
  expect_err '^error: missing: .*libpmix-dev.*no apt-get'
}

test_failing_install_fails() {
  machine 0
  without pmix
  stand_in apt-get <<< 'exit 100'
  install_deps 3
  expect_err '^error: apt-get could not install .*libpmix-dev'
}

check_main "$@"
