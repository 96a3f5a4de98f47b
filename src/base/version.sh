#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the C source of version_text.  The commit comes from the tarball's own note, or else from git.
#   version.sh SRCDIR RELEASE
# version.sh SRCDIR prints the commit alone.
commit=$(cat "$1/.commit" 2> /dev/null || git -C "$1" describe --always --exclude '*' --abbrev=7 --dirty=+ 2> /dev/null)
if [ $# = 1 ]; then
  echo "$commit"
  exit
fi
printf '/* Made by src/base/version.sh. */\n#include "src/base/version.h"\n\nconst char version_text[] = "%s%s";\n' "$2" "${commit:+ ($commit)}"
