#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The build itself: what it installs, what configure says when something is missing, texts turned into strings.
. "$(dirname "$0")/check.sh"

test_install_puts_the_program_under_destdir() {
  make -C "$builddir" install DESTDIR="$PWD/at" > log
  local program
  program=$(find at -type f -name hpctrain)
  expect_run 0 "$program" --version
  expect_out '^hpctrain [0-9]'
}

test_configure_names_the_missing_package() {
  mkdir none
  expect_run 1 env PKG_CONFIG_LIBDIR=none "$srcdir/configure" --quiet
  expect_err 'yaml-0.1.*apt-get install libyaml-dev'
}

test_configure_misses_cuda_only_when_asked_for_it() {
  expect_run 1 "$srcdir/configure" --quiet --with-cuda=/nonexistent
  expect_err 'no CUDA 12.8 or newer with NVRTC, cuBLASLt, cuDNN 9.14 and NCCL 2.26 in /nonexistent; give its folder with --with-cuda=DIR'
  expect_run 0 "$srcdir/configure" --without-cuda
}

test_program_links_nothing_of_cuda() {
  ldd "$builddir/hpctrain" > libraries
  expect_run 1 grep -iE 'cuda|nvrtc|cublas|cudnn|nccl' libraries
  [ -e "$builddir/hpctrain_cuda.so" ] || return 0
  ldd "$builddir/hpctrain_cuda.so" > libraries
  expect_run 1 grep 'libcuda[.]so' libraries
}

# Without Open MPI's and HDF5's own .pc files the wrappers mpicc and h5pcc tell the flags.
test_configure_asks_the_wrapper_compilers() {
  local module
  mkdir pc
  for module in yaml-0.1 jansson libpcre2-8 icu-uc sentencepiece; do cp "$(pkg-config --variable=pcfiledir $module)/$module.pc" pc; done
  expect_run 0 env PKG_CONFIG_LIBDIR=pc "$srcdir/configure" --without-pmix
  expect_out 'MPI and parallel HDF5 link together... yes'
}

test_embedded_text_is_the_text() {
  mkdir kernels
  printf '%s\n' 'a "b" \n \\ %d ??/ ??=' '' $'\ttab // /* x */' "'c'" > kernels/odd.inc.c
  echo 'extern const char text_odd[];' > kernels/texts.h
  sh "$srcdir/kernels/embed.sh" kernels/odd.inc.c > odd.c
  printf '#include <stdio.h>\n#include "kernels/texts.h"\nint main(void) { return fputs(text_odd, stdout) < 0; }\n' > main.c
  cc -std=c11 -I. -o print main.c odd.c
  ./print > printed
  cmp printed kernels/odd.inc.c
}

check_main "$@"
