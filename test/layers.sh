#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the shape of the tree and prints what breaks it, "FILE:LINE: why"; ends with 1 when there is something.
#   test/layers.sh [ROOT]        all checks; ROOT is the top of the sources
#   test/layers.sh ROOT CHECK…   of includes, models, threads, licence, length, lists, format
# includes: both columns of the table of rooms in ARCHITECTURE.md.  models: only src/model, io/names, io/hf_fields.c and io/tok_families.c and io/chat_templates.c know a model by
# name (comments and examples in the help apart).  threads: src/base/thread.c alone starts them.  licence: an SPDX line in every source.  length: at most 800 lines, but for Makefile.am, which lists files.  lists:
# every source, script and case is in Makefile.am, every test program in test/plan too.  format: clang-format 14 changes nothing (another
# version formats otherwise, so without 14 this check only says that it did not run).
set -u
root=${1:-$(dirname "$0")/..}
shift $(($# > 0))
cd "$root" || exit 1
[ $# -gt 0 ] || set -- includes models threads licence length lists format

# Headers of the C library and the kernel, which every room may include.
libc='aio assert cpuid ctype dirent dlfcn elf endian errno execinfo fcntl fenv float fnmatch ftw getopt glob grp ifaddrs
inttypes iso646 langinfo libgen limits link locale malloc math netdb poll pthread pwd regex sched search semaphore
setjmp signal spawn stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings sysexits
syslog termios tgmath threads time uchar ucontext unistd utime wchar wctype wordexp'
cxx='exception string vector' # of the C++ library

sources() { find src kernels io test -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' 2> /dev/null | sort; }
scripts() {
  echo autogen.sh configure.ac Makefile.am | tr ' ' '\n'
  find .ci jobs src kernels test -type f \( -name '*.slurm' -o -name '*.sh' -o -name '*.py' -o -path '.ci/*' \)
}

check_includes() {
  sources | xargs awk -v libc="$libc" -v cxx="$cxx" '
    function room_of(path,   part) {
      split(path, part, "/")
      return part[1] == "src" ? part[1] "/" part[2] : part[1]
    }
    function wrong(why) { print FILENAME ":" FNR ": " why }
    BEGIN {
      n = split(libc, names)
      for (i = 1; i <= n; i++) system_header[names[i] ".h"] = 1
      n = split(cxx, names)
      for (i = 1; i <= n; i++) system_header[names[i]] = 1
      while ((status = getline line < "ARCHITECTURE.md") > 0) {
        if (line ~ /<!-- rooms/) inside = 1
        if (line ~ /<!-- end of rooms/) inside = 0
        if (!inside || split(line, cell, "|") != 6 || cell[2] !~ /^ [a-z\/]+ $/ || cell[2] ~ /^ folder $/) continue
        room = cell[2]; gsub(/ /, "", room); rooms[room] = 1; nrooms++
        n = split(cell[4], names)
        for (i = 1; i <= n; i++) may[room, names[i]] = may[room, "src/" names[i]] = 1
        gsub(/`/, "", cell[5])
        n = split(cell[5], names)
        for (i = 1; i <= n; i++) foreign[room, names[i]] = 1
      }
      if (nrooms < 10) { print "ARCHITECTURE.md:1: no table of rooms between its two comments"; exit }
    }
    FNR == 1 {
      room = room_of(FILENAME)
      if (!(room in rooms)) wrong("folder " room " is in no row of the table of rooms")
    }
    /^[ \t]*#[ \t]*include[ \t]*"/ {
      split($0, part, "\"")
      to = room_of(part[2])
      if (!(to in rooms)) wrong("include \"" part[2] "\": write it from the top of the repository")
      else if (to != room && !((room, to) in may) && !((room, "*") in may)) wrong(room " may not include " to)
      next
    }
    /^[ \t]*#[ \t]*include[ \t]*</ {
      split($0, part, /[<>]/)
      header = part[2]
      if (header in system_header || header ~ /^(sys|linux|net|netinet|arpa)\//) next
      if (!((room, header) in foreign) && !((room, "*") in foreign)) wrong(room " may not include <" header ">")
      next
    }
    /^[ \t]*#[ \t]*include/ { wrong("an include whose file cannot be seen") }
    /^[ \t]*#[ \t]*pragma[ \t]+omp/ {
      if (!((room, "omp.h") in foreign) && !((room, "*") in foreign)) wrong(room " may not use OpenMP")
    }'
}

check_models() {
  find src kernels io \( -name '*.[ch]' -o -name '*.cu' \) ! -path 'src/model/*' ! -path 'io/names.?' ! -path io/hf_fields.c ! -path io/tok_families.c ! -path io/chat_templates.c | sort | xargs awk '
    {
      text = tolower($0)
      gsub(/\.example = "[^"]*"/, "", text)
      if (inside && !sub(/^.*\*\//, "", text)) next
      gsub(/\/\*([^*]|\*[^\/])*\*\//, "", text)
      inside = sub(/\/\*.*/, "", text)
      if (match(text, /(^|[^a-z])(llama|mistral|mixtral|qwen|gpt|gemma|falcon|deepseek|phi)[0-9]*([^a-z]|$)/))
        print FILENAME ":" FNR ": names a model; src/model, io/names, io/hf_fields.c, io/tok_families.c and io/chat_templates.c know models, nothing else does"
    }'
}

check_threads() {
  find src kernels io -name '*.[ch]' ! -path src/base/thread.c | sort | xargs awk '
    /(^|[^a-z_])pthread_create *\(/ { print FILENAME ":" FNR ": thread_start (src/base/thread.h) starts threads: signals are the job\047s own" }'
}

check_licence() {
  { sources; scripts; } | sort -u | xargs awk '
    FNR == 1 { if (file && !seen) print file ":1: no SPDX-License-Identifier in its first three lines"; file = FILENAME; seen = 0 }
    FNR <= 3 && /SPDX-License-Identifier: Apache-2.0/ { seen = 1 }
    END { if (file && !seen) print file ":1: no SPDX-License-Identifier in its first three lines" }'
}

check_length() {
  { sources; scripts; } | grep -vx Makefile.am | sort -u | xargs awk 'FNR == 801 { print FILENAME ":801: longer than 800 lines" }'
}

check_lists() {
  local file listed
  listed=$(tr -s ' \t\\' '\n' < Makefile.am)
  while read -r file; do
    case $file in
      test/*/test_*.c | test/fuzz/fuzz_*.c)
        file=${file%.c}
        grep -qE "[[:space:]]$file( |\$)" test/plan || echo "test/plan:1: has no row for $file"
        ;;
      test/*/*.c) # shared by programs, or a program that is no test
        grep -qxF "$file" <<< "$listed" || file=${file%.c}
        ;;
      *.inc.c | *.inc.cu) file=${file%.inc.*}.text.c ;;
    esac
    grep -qxF "$file" <<< "$listed" || echo "Makefile.am:1: does not list $file"
  done < <(sources)
  while read -r file; do
    grep -qE "[[:space:]]$file( |\$)" test/plan || echo "test/plan:1: has no row for $file"
    grep -qxF "$file" <<< "$listed" || echo "Makefile.am:1: does not list $file"
  done < <(find test -name 'test_*.sh' | sort)
  while read -r file; do
    grep -qxF "$file" <<< "$listed" || echo "Makefile.am:1: does not list $file"
  done < <(find jobs test -type f \( -name '*.slurm' -o -name '*.sh' -o -name '*.py' -o -name '*.yaml' -o -path 'test/ir/*' -o -name '*.md' \) \
    ! -name 'test_*.sh' ! -path 'test/golden/*' 2> /dev/null | sort)
}

check_format() {
  local tool
  for tool in clang-format-14 clang-format; do
    "$tool" --version 2> /dev/null | grep -q 'version 14\.' || continue
    sources | xargs "$tool" --style=file --dry-run 2>&1 | sed -n 's/^\([^:]*:[0-9]*\):.*should be clang-formatted.*/\1: clang-format would change it/p' | uniq
    return
  done
  echo 'note  no clang-format 14: the format is not checked' >&2
}

found=$(for check; do "check_$check"; done)
[ -z "$found" ] && exit 0
printf '%s\n' "$found"
exit 1
