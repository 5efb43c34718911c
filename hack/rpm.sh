#!/usr/bin/env bash
# Makes sure that there is an rpm, with which a test installs the agent's package: that of
# PATH, or else Debian's. Without one that test skips.
set -euo pipefail
command -v rpm >/dev/null || "$(dirname "$0")/apt-install.sh" rpm || true
