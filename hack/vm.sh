#!/usr/bin/env bash
# Makes sure that the machine has what test/vm makes and boots machines with.
set -euo pipefail
missing=()
for tool in qemu-system-x86_64:qemu-system-x86 mmdebstrap:mmdebstrap mke2fs:e2fsprogs; do
  PATH=$PATH:/usr/sbin:/sbin command -v "${tool%%:*}" >/dev/null || missing+=("${tool#*:}")
done
[ "${#missing[@]}" -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "The tests with machines need packages that are not installed; on Debian: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
apt() { DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -q "$@"; }
install() { apt install -y --no-install-recommends "${missing[@]}"; }
install 2>/dev/null || { apt update && install; }
