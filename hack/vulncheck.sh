#!/usr/bin/env bash
# Runs govulncheck (the first argument) in each module that the others name.
set -euo pipefail
govulncheck=$1
shift
database=${GOVULNDB:-https://vuln.go.dev}
case $database in
http*) reachable() { curl --fail --silent --show-error --max-time 20 --output /dev/null "$database/index/db.json"; } ;;
*) reachable() { [ -f "${database#file://}/index/db.json" ]; } ;;
esac
if ! reachable; then
  echo "No vulnerability database at $database: nothing was checked." >&2
  echo "Set GOVULNDB to one that this machine reaches, for instance file:///path/to/a/copy of https://vuln.go.dev" >&2
  exit 1
fi
for module in "$@"; do
  echo "  VULN  $module"
  work=off
  if [ "$module" = . ]; then work=$PWD/hack/root.work; fi
  # Some modules only pin a program and have no package of their own.
  (cd "$module" && export GOWORK=$work && go list ./... tool 2>/dev/null | xargs "$govulncheck" -db "$database")
done
