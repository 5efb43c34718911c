#!/usr/bin/env bash
# Makes sure that there is a python3 for the tests of the example in Python: that of PATH,
# or else Debian's.
set -euo pipefail
if command -v python3 >/dev/null || "$(dirname "$0")/apt-install.sh" python3; then exit; fi
echo "The tests of the example in Python need python3 in PATH: https://www.python.org/downloads" >&2
exit 1
