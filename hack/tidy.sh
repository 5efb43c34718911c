#!/usr/bin/env bash
# `go mod tidy` of the module in the current folder, on its own; the arguments are its flags.
# The root module requires a version of the SDK that is not tagged yet and, because it is
# published, replaces nothing: it is tidied with the SDK of this tree.
set -euo pipefail
export GOWORK=off
sdk=github.com/slipway-dev/slipway/sdk
if [ "$(go list -m)" != "${sdk%/sdk}" ]; then exec go mod tidy "$@"; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp go.mod go.sum "$work"
go mod edit -replace "$sdk=./sdk" "$work/go.mod"
go mod tidy -modfile="$work/go.mod" "$@"
case " $* " in *" -diff "*) exit ;; esac
go mod edit -dropreplace "$sdk" "$work/go.mod"
cp "$work/go.mod" "$work/go.sum" .
