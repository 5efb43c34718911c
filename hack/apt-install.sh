#!/usr/bin/env bash
# apt-install.sh PACKAGE... installs packages of Debian. It fails where that cannot be done.
set -euo pipefail
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 1
apt() { DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -q "$@"; }
install() { apt install -y --no-install-recommends "$@"; }
install "$@" 2>/dev/null && exit
# the lists are old or none; another stage may be updating them
for _ in {1..12}; do if apt update; then break; fi; sleep 5; done
install "$@"
