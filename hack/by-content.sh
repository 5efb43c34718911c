#!/usr/bin/env bash
# Prints another name of a directory of programs, one that tells what the programs are: in
# whichever clone, the same programs have the same name. A test that reads the name from its
# environment is run again when a program has changed, and not before.
#
#   by-content.sh DIRECTORY
set -euo pipefail
cd "$1"
# Below the directory only what tests start as it is: the node bundle, and Debian's prometheus.
programs=$(find -L . -maxdepth 1 -type f -perm -u+x; find -L bundle prometheus -type f -perm -u+x 2>/dev/null || true)
# many names are links to one program: each is read once
id=$({ sort <<<"$programs"; xargs -r -d '\n' readlink -f <<<"$programs" | sort -u | xargs -r -d '\n' sha256sum | cut -d' ' -f1; } | sha256sum | cut -c1-16)
name=${XDG_CACHE_HOME:-$HOME/.cache}/slipway/programs-by-content/$(basename "$1")-$id
mkdir -p "$(dirname "$name")"
ln -sfn "$PWD" "$name"
echo "$name"
