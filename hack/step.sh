#!/usr/bin/env bash
# Runs one step of a build and tells how far it is: the step's number, the packages
# compiled so far, and the one compiled last. On a terminal that is one line which
# changes; elsewhere a line every 20 s. What is no progress passes through, and the
# step ends as its command ended.
#
#   step.sh NAME COMMAND [ARGUMENT...]
#
# STEPS is the number of steps in all and COUNTER a file that counts them; without
# them steps have no number. Commands that compile are given `go build -v`.
set -euo pipefail

name=$1
shift
label="  $name"
if [ -n "${STEPS:-}" ]; then
  echo . >>"$COUNTER"
  label=$(printf '  [%d/%d] %s' "$(wc -l <"$COUNTER")" "$STEPS" "$name")
fi

# say replaces the line on a terminal; elsewhere each line stays.
say() {
  if [ -t 3 ]; then printf '\r\033[K%.*s' "${COLUMNS:-100}" "$1" >&3; else printf '%s\n' "$1" >&3; fi
}

follow() {
  local packages=0 last="" line told=$SECONDS every=20
  if [ -t 3 ]; then every=1; fi
  while true; do
    local got=0
    IFS= read -r -t 1 line || got=$?
    if [ "$got" = 0 ]; then
      case $line in
        "go: downloading "*) last=${line#go: } ;;
        *[[:space:]]* | "") if [ -t 3 ]; then printf '\r\033[K' >&3; fi; printf '%s\n' "$line" >&2 ;;
        *) packages=$((packages + 1)) last=$line ;;
      esac
    elif [ "$got" -le 128 ]; then
      break # the command's output ended; above 128 the second is over
    fi
    if [ $((SECONDS - told)) -ge "$every" ]; then
      told=$SECONDS
      say "$label: $packages packages, $SECONDS s, $last"
    fi
  done
  if [ -t 3 ]; then printf '\r\033[K' >&3; fi
  printf '%s: %s%d s\n' "$label" "$(if [ "$packages" != 0 ]; then echo "$packages packages compiled, "; fi)" "$SECONDS" >&3
}

exec 3>&1
say "$label"
{ "$@" 2>&1 1>&4 | follow; } 4>&1
