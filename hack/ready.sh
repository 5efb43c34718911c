#!/usr/bin/env bash
# Reports what the gate needs and this machine lacks, before anything is built. It changes nothing.
set -uo pipefail
cd "$(dirname "$0")/.."
missing=()

[ "$(id -u)" = 0 ] || missing+=("root: kubelets and their hosts need it. Run \`sudo make test\`, or \`make check\` without root")

command -v go >/dev/null || missing+=("go: install Go $(sed -n 's/^go //p' go.mod) or newer, and add it to PATH")

[ "$(id -u)" != 0 ] || unshare --net --mount --pid --fork true 2>/dev/null ||
  missing+=("namespaces: \`unshare --net --mount --pid --fork true\` fails. Allow them in this container or kernel, or use another machine")

gib=$(awk '/^MemAvailable:/ { printf "%d", $2 / 1048576 }' /proc/meminfo)
[ "$gib" -ge 6 ] || missing+=("memory: $gib GiB are available, 6 are needed. End what uses it: \`ps aux --sort=-rss | head\`")

# $1 is what a directory is for, $2 its path, $3 the GiB it needs, $4 what to do beside making room
disk() {
  local path=$2 free
  while [ ! -e "$path" ]; do path=$(dirname "$path"); done
  [ -w "$path" ] || missing+=("$1: $2 cannot be written")
  free=$(df --output=avail -BG "$path" | tail -1 | tr -dc 0-9)
  [ "${free:-0}" -ge "$3" ] || missing+=("$1: ${free:-0} GiB are free for $2, $3 are needed. Make room, or $4")
}
disk "disk for programs" "$PWD/bin" 6 "clone onto another disk"
disk "disk for tests" "${TMPDIR:-/tmp}" 4 "set TMPDIR to another directory"
if command -v go >/dev/null; then disk "disk for the build cache" "$(go env GOCACHE)" 4 "set GOCACHE to another directory"; fi

# While no test runs, a plane of a test, or a host of one that ended, is a leftover.
pgrep -f '\.test .*-test\.' >/dev/null || for plane in $(pgrep -fa 'slipway serve --state-dir|slipway-sandbox init' | grep -oE '/[^ ]*/planetest-[0-9]+' | sort -u); do
  missing+=("an earlier run left a plane behind. End it: \`bin/slipway --state-dir $plane down --purge\`")
done

[ "${#missing[@]}" = 0 ] || { printf 'make test: %s\n' "${missing[@]}" >&2; exit 1; }
