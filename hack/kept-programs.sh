#!/usr/bin/env bash
# Runs a `go build` with what it built last in place, in whichever work tree that was: the go
# command links a program only where the build ID of the file that is there is not the one it
# would have, which covers code, versions, flags and toolchain.
#
#   kept-programs.sh DIRECTORY PROGRAM... -- COMMAND [ARGUMENT...]
#
# The programs are files below the directory. The last one of each name is kept in the user's
# cache; nothing is kept where there is none.
set -euo pipefail
directory=$1 programs=() kept=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
while shift && [ "$1" != -- ]; do programs+=("${1#"$directory"/}"); done
shift
[ -n "$kept" ] || exec "$@"
kept+=/slipway/programs
# place FROM TO copies a file, which is there as a whole or not at all.
place() { mkdir -p "$(dirname "$2")" && cp --reflink=auto "$1" "$2.$$" && "${3:-true}" "$2.$$" && mv "$2.$$" "$2"; }
for program in "${programs[@]}"; do
  # the go command overwrites nothing that is no program
  if [ ! -e "$directory/$program" ] && go tool buildid "$kept/$program" >/dev/null 2>&1; then place "$kept/$program" "$directory/$program"; fi
done
"$@"
# A full or read-only disk below the cache is no reason to fail. What is kept is on the disk
# before it has its name: after a power cut a part of it would have the right build ID.
for program in "${programs[@]}"; do
  cmp -s "$directory/$program" "$kept/$program" || place "$directory/$program" "$kept/$program" sync || rm -f "$kept/$program.$$" || true
done
