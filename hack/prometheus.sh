#!/usr/bin/env bash
# Puts Debian's prometheus and promtool into a folder; nothing is installed on the machine.
set -euo pipefail
folder=$1
[ -x "$folder/promtool" ] && exit
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
download() { (cd "$work" && apt-get -o APT::Sandbox::User=root -o Acquire::Retries=3 download -q prometheus >/dev/null); }
download 2>/dev/null || { apt-get -o Acquire::Retries=3 update -q >/dev/null && download; }
dpkg-deb -x "$work"/prometheus_*.deb "$work/files"
mkdir -p "$folder"
mv "$work/files/usr/bin/prometheus" "$work/files/usr/bin/promtool" "$folder/"
