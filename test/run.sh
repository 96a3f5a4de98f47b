#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds in build/, runs the suite; the last line is "N passed, N failed".
#   test/run.sh [ROW…]      only these rows of test/plan
set -eu
cd "$(dirname "$0")/.."
jobs/install-deps.sh --tests
[ -e configure ] || ./autogen.sh > /dev/null 2>&1 || ./autogen.sh # the second time with its words
mkdir -p build
cd build
[ -e Makefile ] || ../configure --quiet
make -s -j"$(nproc)" all check-programs
exec ../test/runner.sh suite "$@"
