#!/usr/bin/env bash
# Prints those of the packages with tests in which there is anything for the race detector to
# find: the code or its tests start goroutines, run beside each other, or share memory by
# locks, atomics or channels.
#
#   concurrent.sh PACKAGE...
set -euo pipefail
go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{$dir := .Dir}}{{.ImportPath}}{{range .GoFiles}} {{$dir}}/{{.}}{{end}}{{range .TestGoFiles}} {{$dir}}/{{.}}{{end}}{{range .XTestGoFiles}} {{$dir}}/{{.}}{{end}}{{end}}' "$@" |
  while read -r package files; do
    # shellcheck disable=SC2086 # a list of files without spaces in their names
    if grep -qE '(^|[^[:alnum:]_])(go (func|[[:alnum:]_.]+)\(|sync\.|atomic\.|chan |t\.Parallel\(|httptest\.)|\.Go\(' $files; then echo "$package"; fi
  done
