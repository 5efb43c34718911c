#!/bin/sh
# dpkg: remove, or upgrade VERSION; rpm: how many versions stay.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
# A node without its agent could not be reset any more, nor rid of what the agent installed.
/usr/bin/slipway-agent uninstall --check
[ -d /run/systemd/system ] || exit 0
systemctl --quiet disable --now slipway-agent.service
