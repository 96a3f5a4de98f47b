#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds in build/, runs the suite; the last line is "N passed, N failed".
set -eu
cd "$(dirname "$0")/.."
jobs/install-deps.sh
[ configure -nt configure.ac ] && [ Makefile.in -nt Makefile.am ] || ./autogen.sh > /dev/null
mkdir -p build
cd build
[ -e Makefile ] || ../configure --quiet
make -s -j"$(nproc)" all check-programs
exec ../test/runner.sh suite "$@"
