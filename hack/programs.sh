#!/usr/bin/env bash
# Puts prometheus and promtool into a folder: those of PATH, or else Debian's. Nothing is
# installed on the machine.
set -euo pipefail
folder=$1
[ -x "$folder/promtool" ] && exit
mkdir -p "$folder"
if prometheus=$(command -v prometheus) && promtool=$(command -v promtool); then
  ln -sfn "$prometheus" "$folder/prometheus"
  ln -sfn "$promtool" "$folder/promtool"
  exit
fi
if ! command -v apt-get >/dev/null; then
  echo "The tests of alerts need prometheus and promtool in PATH: https://prometheus.io/download" >&2
  exit 1
fi
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
download() { (cd "$work" && apt-get -o APT::Sandbox::User=root -o Acquire::Retries=3 download -q prometheus >/dev/null); }
download 2>/dev/null || { apt-get -o Acquire::Retries=3 update -q >/dev/null && download; }
dpkg-deb -x "$work"/prometheus_*.deb "$work/files"
mv "$work/files/usr/bin/prometheus" "$work/files/usr/bin/promtool" "$folder/"
