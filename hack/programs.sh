#!/usr/bin/env bash
# Puts programs that tests need into a folder: those of PATH, or else those of Debian's
# package. Nothing is installed on the machine.
#
#   programs.sh FOLDER PACKAGE PROGRAM...
set -euo pipefail
folder=$1 package=$2
shift 2
# The first comes last.
[ -x "$folder/$1" ] && exit
mkdir -p "$folder"
found=()
for program in "$@"; do
  if path=$(command -v "$program"); then found+=("$path"); fi
done
if [ "${#found[@]}" = "$#" ]; then
  ln -sfn "${found[@]}" "$folder/"
  exit
fi
if ! command -v apt-get >/dev/null; then
  echo "The tests need $* in PATH; Debian has them in its package $package" >&2
  exit 1
fi
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
download() { (cd "$work" && apt-get -o APT::Sandbox::User=root -o Acquire::Retries=3 download -q "$package" >/dev/null); }
download 2>/dev/null || { apt-get -o Acquire::Retries=3 update -q >/dev/null && download; }
dpkg-deb -x "$work/$package"_*.deb "$work/files"
for program in "${@:2}" "$1"; do mv "$work/files/usr/bin/$program" "$folder/"; done
