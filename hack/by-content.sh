#!/usr/bin/env bash
# Prints another name of a directory of programs, one that tells what the programs are: in
# whichever clone, the same programs have the same name. A test that reads the name from its
# environment is run again when a program has changed, and not before.
#
#   by-content.sh DIRECTORY
set -euo pipefail
# an ID of the contents: that of a program without its build, as kubectl's script, is its file
id=$(find -L "$1" -maxdepth 1 -type f -perm -u+x | sort | while read -r program; do
  echo "$(basename "$program") $(go tool buildid "$program" 2>/dev/null || sha256sum <"$program")"
done | sha256sum | cut -c1-16)
name=${XDG_CACHE_HOME:-$HOME/.cache}/slipway/programs-by-content/$(basename "$1")-$id
mkdir -p "$(dirname "$name")"
ln -sfn "$1" "$name"
echo "$name"
