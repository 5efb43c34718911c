#!/usr/bin/env bash
# Runs one step of a build and tells how far it is: the step's number, and the packages that
# `go build -v` compiled so far, on a line that changes, or in one every 20 s where that is no terminal.
#
#   step.sh NAME COMMAND [ARGUMENT...]
#
# STEPS is the number of steps in all and COUNTER a file that counts them; without them steps have
# no number.
set -euo pipefail
label="  $1"
shift
if [ -n "${STEPS:-}" ]; then
  echo . >>"$COUNTER"
  label=$(printf '  [%d/%d]%s' "$(wc -l <"$COUNTER")" "$STEPS" "${label:1}")
fi
every=20 clear='' end='\n'
if [ -t 1 ]; then every=1 clear='\r\033[K' end=''; fi
follow() {
  local packages=0 told=$SECONDS line
  while IFS= read -r line; do
    case $line in
      "go: downloading "*) line=${line#go: } ;;
      *[[:space:]]* | "") printf "$clear%s\n" "$line" >&2 && continue ;;
      *) packages=$((packages + 1)) ;;
    esac
    if [ $((SECONDS - told)) -ge $every ]; then told=$SECONDS && printf "$clear%.${COLUMNS:-100}s$end" "$label: $packages packages, $SECONDS s, $line"; fi
  done
  printf "$clear%s: %s%d s\n" "$label" "$([ $packages = 0 ] || echo "$packages packages compiled, ")" "$SECONDS"
}
printf "%s$end" "$label"
{ "$@" 2>&1 1>&3 | follow 3>&-; } 3>&1
