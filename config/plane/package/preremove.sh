#!/bin/sh
# dpkg: remove, or upgrade VERSION; rpm: how many versions stay.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
# Nothing else could stop a plane, take its hosts away or start it at the next boot.
keep() {
	echo "slipway: $1: \`slipway uninstall\` and \`slipway down\` stop it and keep its data, \`slipway down --purge\` removes all of it" >&2
	exit 1
}
for unit in /etc/systemd/system/slipway-plane-*.service; do
	if [ -e "$unit" ] && grep -q /usr/lib/slipway/ "$unit"; then keep "a plane is the service ${unit##*/}"; fi
done
for process in /proc/[0-9]*; do
	case "$(readlink "$process/exe" || :)" in
	/usr/lib/slipway/slipway*) keep "a plane runs (pid ${process##*/})" ;;
	esac
done
