#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes ./configure from configure.ac and Makefile.am.
cd "$(dirname "$0")" && exec autoreconf --install --warnings=all,no-portability
