#!/usr/bin/env bash
# Puts a Chromium into a folder, which the console is tested in: that of PATH, or else
# Debian's, without its windows.
set -euo pipefail
folder=$1
[ -x "$folder/chromium" ] && exit
mkdir -p "$folder"
find_one() {
  for name in chromium-headless-shell chromium google-chrome; do
    if browser=$(command -v "$name"); then return; fi
  done
  return 1
}
if ! find_one && ! { "$(dirname "$0")/apt-install.sh" chromium-headless-shell && find_one; }; then
  echo "The tests of the console need chromium or google-chrome in PATH; on Debian: sudo apt-get install --no-install-recommends chromium-headless-shell" >&2
  exit 1
fi
ln -sfn "$browser" "$folder/chromium"
