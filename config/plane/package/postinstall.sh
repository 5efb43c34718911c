#!/bin/sh
# dpkg: configure [VERSION BEFORE]; rpm: 1 at the first install, 2 at an upgrade.
set -e
[ -d /run/systemd/system ] || exit 0
# A plane that is a service goes on as the new one: it starts its other programs from beside
# itself, and they must be of one version. Clusters and hosts run meanwhile.
systemctl try-restart 'slipway-plane-*.service' || true
