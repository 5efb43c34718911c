#!/usr/bin/env bash
# Downloads the modules that packages need, and tries again when the module proxy
# fails for a moment: a build of an hour should not end with one bad gateway.
# The arguments are those of `go list`: flags, then packages.
set -euo pipefail
for pause in 2 10 30; do
  if go list -deps "$@" >/dev/null; then exit; fi
  echo "modules are missing, trying again in $pause s" >&2
  sleep "$pause"
done
exec go list -deps "$@" >/dev/null
