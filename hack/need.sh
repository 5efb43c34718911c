#!/usr/bin/env bash
# Makes sure that this machine has what a build or a test starts: what is in PATH, or else Debian's
# packages. Programs that need no place of their own are put into bin/NAME, and all else is
# installed, as root.
#
#   need.sh deps|prometheus|registry|python|rpm|vm|chromium
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin folder=
case $1 in
  # what runc is compiled with; nft is copied into the images of kube-proxy and flannel
  deps) packages="gcc libc6-dev libseccomp-dev pkg-config nftables" programs="gcc /usr/include/stdio.h /usr/include/seccomp.h pkg-config nft" ;;
  prometheus) packages=prometheus programs="promtool prometheus" folder=bin/prometheus ;; # for alerts
  registry) packages=docker-registry programs=docker-registry folder=bin/registry ;;      # CNCF Distribution, for host bundles
  python) packages=python3 programs=python3 ;;                                            # for the extension in another language
  rpm) packages=rpm programs=rpm ;;                                                       # for the agent's package
  vm) packages="qemu-system-x86 mmdebstrap e2fsprogs" programs="qemu-system-x86_64 mmdebstrap mke2fs" ;;
  chromium) packages="chromium-headless-shell $(command -v npm >/dev/null || echo npm)" programs="$(command -v chromium google-chrome || echo chromium-headless-shell) npm" ;;
esac

lacks() { for p in $programs; do [ -e "$p" ] || [ -x "$folder/$p" ] || command -v "$p" >/dev/null || return 0; done; return 1; }
apt() { DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -o APT::Sandbox::User=root -qy "$@"; }
get() {
  if [ -z "$folder" ]; then apt install --no-install-recommends $packages && return; fi
  rm -rf "$folder/deb" && mkdir -p "$folder/deb" && (cd "$folder/deb" && apt download $packages && dpkg-deb -x ./*.deb . && cd usr/bin && mv $programs ../../..) && rm -r "$folder/deb"
}
# The lists of packages may be old, and somebody else may be renewing them.
get_anew() { for _ in {1..12}; do if apt update; then break; fi; sleep 5; done && get; }

# Two targets may need the same at once.
mkdir -p bin && exec 9>>bin/.need.lock && flock 9
! lacks || { command -v apt-get >/dev/null && { get 2>/dev/null || get_anew; }; } >&2 ||
  { echo "make $1 needs $programs. On Debian: sudo apt-get install --no-install-recommends $packages" >&2 && exit 1; }
for p in ${folder:+$programs}; do [ -x "$folder/$p" ] || { mkdir -p "$folder" && ln -sfn "$(command -v "$p")" "$folder/$p"; }; done
[ "$1" != chromium ] || ln -sfn "$(command -v $programs | head -1)" bin/chromium
# the rules of accessibility that pages are held to there
[ "$1" != chromium ] || [ -e bin/axe.min.js ] ||
  (cd bin && tar -xzO package/axe.min.js <"$(npm pack --silent axe-core@4.10.3)" >axe.new && rm axe-core-*.tgz && echo "880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb  axe.new" | sha256sum -c --quiet && mv axe.new axe.min.js)
