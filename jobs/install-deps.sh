#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs what building and testing need and this machine (Debian 12, Ubuntu 24.04 or alike) lacks.  Says so when it
# installs, says nothing when all is there.  Not root: through sudo.
#   jobs/install-deps.sh --tests     and what single tests want, which a laptop that only trains does without
set -eu
tests=${1-}

# what tells that it is there (a command, a header, a library, a pkg-config module, functions for a shell) and the package that brings it
needs() {
  cat << 'END'
command gcc gcc
command g++ g++
command make make
command autoconf autoconf
command automake automake
command pkg-config pkg-config
command mpirun openmpi-bin
command python3 python3
command bible bible-kjv
command clang-format clang-format
module ompi-c libopenmpi-dev
module hdf5-openmpi libhdf5-openmpi-dev
module yaml-0.1 libyaml-dev
module jansson libjansson-dev
module pmix libpmix-dev
module libpcre2-8 libpcre2-dev
module icu-uc libicu-dev
module sentencepiece libsentencepiece-dev
library libdnnl.so. libdnnl
header stdio.h libc6-dev
END
  [ "$tests" != --tests ] || echo shell modules environment-modules
}

is_there() {
  case $1 in
    command) command -v "$2" > /dev/null ;;
    module) command -v pkg-config > /dev/null && pkg-config --exists "$2" ;;
    library) /sbin/ldconfig -p | grep -qF "$2" ;;
    shell) [ -e "/usr/share/$2/init/bash" ] || [ -e /usr/share/lmod ] ;; # Lmod is the same thing, and excludes the other
    header) [ -e "/usr/include/$2" ] ;;
  esac
}

missing=()
while read -r kind what package; do
  is_there "$kind" "$what" || missing+=("$package")
done < <(needs)
[ ${#missing[@]} = 0 ] && exit 0

if ! command -v apt-get > /dev/null; then
  echo "error: missing: ${missing[*]} (Debian's names), and there is no apt-get here" >&2
  echo "help: install them in this system's way; of oneDNN (libdnnl) the run-time library is enough" >&2
  exit 3
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo > /dev/null || {
    echo "error: missing: ${missing[*]}; installing needs root, and there is no sudo here" >&2
    echo "help: as root: $0" >&2
    exit 3
  }
  as_root=(sudo)
fi

apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes apt-get -qq -o Dpkg::Use-Pty=0 "$@"; }
updated=
# The name of oneDNN's run-time package holds its version: libdnnl2 (Debian 12), libdnnl3 (Ubuntu 24.04).
full_name() {
  [ "$1" = libdnnl ] || { echo "$1"; return; }
  apt-cache pkgnames libdnnl | grep -xE 'libdnnl[0-9.]+' | sort -V | tail -n 1
}
known() {
  local name
  for name in "${missing[@]}"; do
    [ -n "$(apt-cache show "$(full_name "$name")" 2> /dev/null)" ] || return 1
  done
}
update() {
  echo "packages  apt-get update${as_root:+ (sudo)}"
  apt update || echo "note  apt-get update failed; going on with the lists that are there" >&2
  updated=yes
}
install() { apt install --no-install-recommends -y "${names[@]}" > /dev/null; }

known || update
names=()
for name in "${missing[@]}"; do
  full=$(full_name "$name")
  if [ -n "$full" ]; then
    names+=("$full")
  else
    echo "note  no package of oneDNN's library here; hpctrain does without"
  fi
done
[ ${#names[@]} -gt 0 ] || exit 0
echo "packages  installing ${names[*]}${as_root:+ (sudo)}"
install && exit 0
if [ -z "$updated" ]; then # the lists may be too old to fetch from
  update
  install && exit 0
fi
echo "error: apt-get could not install ${names[*]}" >&2
echo "help: its own words are above; is the network there?" >&2
exit 3
