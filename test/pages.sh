#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Whether what pages name is there: test/pages.sh HELP [ROOT]   prints what is not, as "PAGE: ..."; status 1 if anything is.
#   files       `src/comm/watch.c`, `prefetch.c`, and the targets of links, with the heading behind #
#   keys        `train.lr`, by doc/keys.md
#   commands    hpctrain COMMAND, and its --flags, by HELP/COMMAND: what `hpctrain help COMMAND` prints; other flags by the sources
# Only code counts: what stands between backticks, and lines that begin with four blanks, up to a comment.  Of jobs keys alone are
# looked at, in comments.
set -u
help=$1 root=${2:-$(dirname "$0")/..}
cd "$root" || exit 2
shopt -s nullglob globstar
pages=(*.md test/**/README.md test/bench/*.md)
bad=0
tell() {
  echo "$1: $2"
  bad=1
}

# Of each page: PAGE <tab> code, a line a piece.  A piece between backticks may go on in the next line.
code() {
  local page
  for page in "${pages[@]}"; do
    awk -v page="$page" '
      function put(text) { gsub(/\n/, " ", text); print page "\t" text }
      function end_paragraph(  n, part, i) {
        n = split(paragraph, part, "`")
        for (i = 2; i <= n; i += 2) put(part[i])
        paragraph = ""
      }
      /^    / { end_paragraph(); sub(/ +# .*/, ""); put($0); next }
      /^$/ { end_paragraph(); next }
      { paragraph = paragraph "\n" $0 }
      END { end_paragraph() }' "$page"
  done
}
all=$(code)

# tokens REGEX: PAGE and each match of it in code, once.
tokens() { awk -F'\t' -v re="$1" '{ s = $2; while (match(s, re)) { print $1 "\t" substr(s, RSTART, RLENGTH); s = substr(s, RSTART + RLENGTH) } }' <<< "$all" | sort -u; }

# Programs are named without .c, patterns name files, what is built has a template.
is_there() {
  local found=("$1"* "$1".c)
  [ -e "$1" ] || [ -e "$1.c" ] || [ -e "$1.in" ] || [ ${#found[@]} -gt 1 ]
}
while IFS=$'\t' read -r page path; do
  path=${path#[^a-z]}
  case $path in
    *foo* | *_x* | test/log) ;; # examples; in build folders
    *) is_there "$path" || tell "$page" "there is no $path" ;;
  esac
done < <(tokens '(^|[^A-Za-z0-9_./-])(src|io|kernels|test|jobs|modulefiles|doc)/[A-Za-z0-9_./*-]*[A-Za-z0-9_/*]')
names=$(find src io kernels test jobs -name '*.c' -printf '%f\n' -o -name '*.sh' -printf '%f\n')
while IFS=$'\t' read -r page name; do
  name=$(grep -oE '[a-z0-9_]+[.](c|sh)' <<< "$name")
  case $name in *foo* | *_x*) continue ;; esac
  grep -qx "$name" <<< "$names" || tell "$page" "no file is called $name"
done < <(tokens '(^| )[a-z][a-z0-9_]*[.](c|sh)([^a-z.]|$)')

while IFS=$'\t' read -r page target; do
  file=${target%%#*} anchor=${target#"$file"}
  [ -n "$file" ] || file=$(basename "$page")
  file=$(dirname "$page")/$file
  if [ ! -e "$file" ]; then
    tell "$page" "a link leads to $target, which is not there"
  elif [ -n "$anchor" ]; then
    sed -nE 's/^#+ //p' "$file" | tr 'A-Z ' 'a-z-' | tr -d '.,:()' | grep -qx -- "${anchor#\#}" || tell "$page" "no heading for the link to $target"
  fi
done < <(for page in "${pages[@]}"; do grep -oE '\]\([^)]+\)' "$page" | sed -E "s#^..(.*).\$#$page\t\1#" | grep -v '://'; done)

keys=$(awk -F'`' '/^## / { section = substr($0, 4) } /^\| `/ { print section "." $2 }' doc/keys.md)
sections=$(cut -d. -f1 <<< "$keys" | sort -u | paste -sd'|')
while IFS=$'\t' read -r page key; do
  key=$(grep -oE '[a-z]+\.[a-z_0-9]+' <<< "$key")
  case $key in *.yaml | *.bin | *.json | *.jsonl | *.h5 | *.c | *.h | *.txt | *.pickle | *.safetensors | model.layers) continue ;; esac
  grep -qxF "$key" <<< "$keys" || tell "$page" "there is no key $key"
done < <(all+=$'\n'$(awk '/^ *#/ { print FILENAME "\t" $0 }' jobs/*.slurm jobs/*.yaml jobs/*.sh modulefiles/* /dev/null)
  tokens "(^|[^A-Za-z0-9_./-])($sections)[.][a-z_0-9]+")

while IFS=$'\t' read -r page words; do
  read -r _ command _ <<< "$words"
  [ -e "$help/$command" ] || tell "$page" "there is no command $command"
  [ -e "$help/$command" ] || continue
  for flag in $(grep -oE -- ' --[a-z-]+' <<< "$words"); do
    grep -qF -- "$flag" "$help/$command" || tell "$page" "hpctrain $command knows no $flag"
  done
done < <(tokens '(^|[^A-Za-z0-9_./-]|/)hpctrain [a-z]+( [^|;#]*)?$' | sed -E 's/\t.*hpctrain/\thpctrain/; /hpctrain [a-z]+[.]/d')
while IFS=$'\t' read -r page flag; do
  grep -rqF -- "${flag# }" src test/fuzz test/run.sh test/runner.sh test/bench configure.ac || tell "$page" "nothing knows ${flag# }"
done < <(all=$(grep -vE 'sbatch|srun|/configure' <<< "$all"); tokens '(^| )--[a-z][a-z-]+') # those of other programs
exit $bad
