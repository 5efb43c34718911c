#!/usr/bin/env bash
# Makes sure that the machine has what test/vm makes and boots machines with.
set -euo pipefail
missing=()
for tool in qemu-system-x86_64:qemu-system-x86 mmdebstrap:mmdebstrap mke2fs:e2fsprogs; do
  PATH=$PATH:/usr/sbin:/sbin command -v "${tool%%:*}" >/dev/null || missing+=("${tool#*:}")
done
if [ "${#missing[@]}" = 0 ] || "$(dirname "$0")/apt-install.sh" "${missing[@]}"; then exit; fi
echo "The tests with machines need packages that are not installed; on Debian: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
exit 1
