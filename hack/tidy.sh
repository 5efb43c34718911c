#!/usr/bin/env bash
# `go mod tidy` of the module in the current folder, on its own; the arguments are its flags.
# Published modules require versions of each other that are not tagged yet and, because they are
# published, replace nothing: they are tidied with those of this tree.
set -euo pipefail
export GOWORK=off
root=github.com/slipway-dev/slipway tree=$(cd "$(dirname "$0")/.." && pwd)
case $(go list -m) in
  $root) replaced="$root/sdk=$tree/sdk" ;;
  $root/cmd/slipway-bundle) replaced="$root/sdk=$tree/sdk $root=$tree" ;;
  *) exec go mod tidy "$@" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp go.mod $(ls go.sum 2>/dev/null) "$work"
for r in $replaced; do go mod edit -replace "$r" "$work/go.mod"; done
go mod tidy -modfile="$work/go.mod" "$@"
case " $* " in *" -diff "*) exit ;; esac
for r in $replaced; do go mod edit -dropreplace "${r%%=*}" "$work/go.mod"; done
cp "$work/go.mod" "$work/go.sum" .
