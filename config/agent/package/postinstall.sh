#!/bin/sh
# dpkg: configure [VERSION BEFORE]; rpm: 1 at the first install, 2 at an upgrade.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload || true
# Nothing starts before the host was told where to enroll. An agent that runs goes on as the new one.
systemctl try-restart slipway-agent.service || true
