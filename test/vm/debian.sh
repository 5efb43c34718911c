#!/usr/bin/env bash
# Makes the disk of a Debian machine as an administrator's installer leaves it: systemd,
# sshd, sudo, a network address, and nothing of Kubernetes.
#
#   debian.sh SUITE FOLDER
#
# FOLDER gets disk.img (no partitions, no boot loader), vmlinuz, initrd.img, and
# host-key.pub, the key that sshd shows. The machine lets in the SSH key that systemd is
# given at boot as the credential ssh.authorized_keys.root.
set -euo pipefail
suite=$1 folder=$2
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
root=$work/root

# Debian's containerd is in /root/packages, not installed; in /root/tools are files of packages that no machine is to have.
mmdebstrap --quiet --variant=important --aptopt='Acquire::Retries "3"' \
  --include=linux-image-cloud-amd64,openssh-server,sudo,systemd-timesyncd \
  --customize-hook='mkdir "$1/root/packages" && chroot "$1" sh -c "cd /root/packages && apt-get -o APT::Sandbox::User=root -q download containerd runc"' \
  --customize-hook='mkdir "$1/root/tools" && chroot "$1" sh -c "cd /root/tools && apt-get -o APT::Sandbox::User=root -q download iptables libip4tc2 libip6tc2 libnetfilter-conntrack3 libnfnetlink0 && for deb in *.deb; do dpkg-deb -x \$deb . && rm \$deb; done"' \
  "$suite" "$root"

echo vm-1 >"$root/etc/hostname"
printf '127.0.0.1 localhost\n127.0.1.1 vm-1\n' >"$root/etc/hosts"
echo '/dev/vda / ext4 defaults 0 1' >"$root/etc/fstab"
: >"$root/etc/machine-id" # made at the first boot
rm -f "$root/var/lib/dbus/machine-id"
# Nobody answers there; without any, CoreDNS does not start.
echo 'nameserver 192.0.2.53' >"$root/etc/resolv.conf"

# The first card leads to this machine alone, the second to the hosts' network.
card() { printf '[Match]\nMACAddress=%s\n[Network]\nAddress=%s\nIPv6AcceptRA=no\nLinkLocalAddressing=ipv6\n%s\n' "$2" "$3" "$4" >"$root/etc/systemd/network/$1.network"; }
card 10-management 52:54:00:00:00:01 10.0.2.15/24 ''
card 20-hosts 52:54:00:00:00:02 10.88.0.77/24 'Gateway=10.88.0.1'
chroot "$root" systemctl --quiet enable systemd-networkd ssh
# No mail is sent, and nothing is updated, while a test compares files.
chroot "$root" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer

truncate -s 12G "$folder/disk.img"
mke2fs -q -t ext4 -E lazy_itable_init=1 -d "$root" "$folder/disk.img"
cp "$root"/boot/vmlinuz-* "$folder/vmlinuz"
cp "$root"/boot/initrd.img-* "$folder/initrd.img"
cp "$root/etc/ssh/ssh_host_ed25519_key.pub" "$folder/host-key.pub"
