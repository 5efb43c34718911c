#!/usr/bin/env bash
# Fails when `make generate` would change a file. It runs in a copy of the work tree:
# a dirty tree is no failure, and nothing of it is overwritten.
# The argument names a file that remembers what was last found to be in order; when
# nothing that generators read or write has changed since, they are not asked again.
set -euo pipefail
stamp=$1

files() {
  git ls-files -z --cached --others --exclude-standard --deduplicate -- . ':!*_test.go' ':!test' |
    while IFS= read -r -d '' file; do [ -e "$file" ] && printf '%s\0' "$file"; done
}

state=$({ go version && files | sort -z | xargs -0 sha256sum; } | sha256sum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$state" ]; then exit 0; fi

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
files | xargs -0 cp --parents --no-dereference --preserve=mode --target-directory "$copy"
git -C "$copy" init --quiet
git -C "$copy" add --all --force
# what no generator writes any more must not survive
rm -f "$copy"/config/crd/bases/* "$copy"/config/lifecycle/crd/bases/*
make --no-print-directory --silent -C "$copy" generate
git -C "$copy" add --all --intent-to-add
git -C "$copy" diff --exit-code || { echo "Generated files are stale. Run: make generate" >&2 && exit 1; }
mkdir -p "$(dirname "$stamp")"
printf '%s\n' "$state" >"$stamp"
