#!/usr/bin/env bash
# Makes sure that there is a python3 for the tests of the example in Python: that of PATH,
# or else Debian's.
set -euo pipefail
if command -v python3 >/dev/null; then exit; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "The tests of the example in Python need python3 in PATH: https://www.python.org/downloads" >&2
  exit 1
fi
apt() { DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -q "$@"; }
install() { apt install -y --no-install-recommends python3; }
if ! install 2>/dev/null; then
  # another stage may be updating the lists
  for _ in {1..60}; do if apt update; then break; fi; sleep 5; done
  install
fi
