#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the C source of a string that holds a text: kernels/foo.inc.c, kernels/foo.inc.cu or a header kernels/foo.h becomes
# const char text_foo[].
name=$(basename "$1")
name=${name%%.*}
printf '/* Made from %s by kernels/embed.sh. */\n#include "kernels/texts.h"\n\nconst char text_%s[] =\n' "$(basename "$1")" "$name"
sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/?/\\?/g' -e 's/.*/    "&\\n"/' "$1"
printf '    "";\n'
