#!/bin/sh
# dpkg: remove, purge and others; rpm: how many versions stay. Only dpkg can purge.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
[ "$1" = purge ] || exit 0
rm -rf /var/lib/slipway-agent
rm -f /etc/slipway/agent.yaml /etc/slipway/bootstrap-kubeconfig /etc/slipway/hostbundle.pub /var/log/slipway-bootstrap.log
rmdir --ignore-fail-on-non-empty /etc/slipway 2>/dev/null || true
