#!/usr/bin/env bash
# Prints those of the packages with tests whose tests start no program: what they compile, the
# environment they read and the files they open in their module, which the go command
# compares before it reuses a result, is all that they depend on.
#
#   selfcontained.sh PACKAGE...
set -euo pipefail
own=github.com/slipway-dev/slipway/
go list -test -deps -f '{{.ImportPath}}|{{join .Imports " "}}|{{join .Deps "|"}}' "$@" |
  awk -F'|' -v own="$own" '
    # a variant of a package for a test has the name of the test behind it
    index($1, own) == 1 && $2 ~ /(^| )(os\/exec|k8s\.io\/utils\/exec)( |$)/ { starts[$1] = 1 }
    index($1, own) == 1 && $1 ~ /^[^ ]*\.test$/ { tests[$1] = $0 }
    END {
      for (test in tests) {
        n = split(tests[test], dependency)
        for (i = 3; i <= n && !(dependency[i] in starts); i++) {}
        if (i > n) { sub(/\.test$/, "", test); print test }
      }
    }' | sort
