package vm

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// ofOperator is what the machine is before a claim. The programs of iptables are in /root/tools: see debian.sh.
const ofOperator = `set -e
printf '#!/bin/sh\nLD_LIBRARY_PATH=/root/tools/usr/lib/x86_64-linux-gnu XTABLES_LIBDIR=/root/tools/usr/lib/x86_64-linux-gnu/xtables exec /root/tools/usr/sbin/"$@"\n' >/usr/local/sbin/legacy
chmod 755 /usr/local/sbin/legacy
apt-mark hold cron
printf '[Service]\nExecStartPre=/usr/local/sbin/legacy iptables-legacy -A INPUT -p tcp --dport 25 -j DROP\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/own.service
printf '[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n' >/etc/systemd/system/own.timer
systemctl daemon-reload; systemctl enable --now own.service own.timer
fallocate -l 32M /var/own.swap; chmod 600 /var/own.swap; mkswap /var/own.swap; swapon /var/own.swap; echo '/var/own.swap none swap sw 0 0' >>/etc/fstab
echo 'vm.swappiness = 10' >/etc/sysctl.d/90-own.conf; sysctl --system
useradd --create-home own
`

// ofBootstrap is what the commands of a bootstrap do to it.
const ofBootstrap = `set -e
swapoff -a; sed -i '/swap/s/^/#/' /etc/fstab
systemctl disable --now own.timer systemd-timesyncd; systemctl mask --now e2scrub_all.timer; systemctl stop cron
systemctl enable --now console-getty.service nftables.service; systemctl start debug-shell.service
apt-mark unhold cron; apt-mark hold openssh-server
printf 'overlay\nbr_netfilter\n' >/etc/modules-load.d/k8s.conf; modprobe overlay; modprobe br_netfilter
printf 'net.ipv4.ip_forward = 1\nnet.bridge.bridge-nf-call-iptables = 1\nvm.swappiness = 0\nkernel.panic = 10\nvm.overcommit_memory = 1\n' >/etc/sysctl.d/99-k8s.conf; sysctl --system
legacy iptables-legacy -I INPUT -p tcp --dport 10250 -j ACCEPT; legacy iptables-legacy -t nat -N KUBE-SERVICES; legacy ip6tables-legacy -P FORWARD DROP
systemctl set-property system.slice CPUWeight=50; systemctl set-environment THEIRS=1
mkdir -p /etc/systemd/system/ssh.service.d; printf '[Service]\nLimitNOFILE=1048576\n' >/etc/systemd/system/ssh.service.d/theirs.conf; systemctl daemon-reload
printf '[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/theirs.service; systemctl enable --now theirs.service
systemd-run --unit=transient-theirs sleep infinity; systemd-run --on-calendar=hourly --unit=later-theirs true
useradd --create-home theirs; usermod -aG sudo own; groupadd theirgroup
echo 'KERNEL=="sd*", MODE="0666"' >/etc/udev/rules.d/99-theirs.rules; chmod 666 /dev/vda; mknod /dev/theirs c 1 3
echo '* * * * * root true' >/etc/cron.d/theirs; echo '0 0 * * * true' | crontab -
mv /etc/resolv.conf /etc/resolv.conf.theirs; ln -s /run/systemd/resolve/stub-resolv.conf /etc/resolv.conf
echo '10.0.0.9 registry' >>/etc/hosts; ln -sfn /usr/share/zoneinfo/Europe/Berlin /etc/localtime; hostname theirs; echo theirs >/etc/hostname
setcap cap_net_raw+ep /usr/bin/sleep; chmod 4755 /usr/bin/id; chattr +i /etc/motd; chmod 777 /etc/cron.d
mount -o remount,noatime,nosuid /; mount -t tmpfs none /mnt; mkdir /mnt/u /mnt/w; mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/u,workdir=/mnt/w /srv
mkdir /var/lib/etcd; mount --bind /etc /var/lib/etcd
fallocate -l 16M /var/cache/theirs.img; losetup -f /var/cache/theirs.img; dmsetup create theirs --table '0 100 zero'
modprobe vfio-pci; rng=$(dirname "$(grep -l 0x1005 /sys/bus/pci/devices/*/device)"); echo vfio-pci >$rng/driver_override; echo ${rng##*/} >$rng/driver/unbind; echo ${rng##*/} >/sys/bus/pci/drivers_probe || true
`

// changedByTools are the times of programs whose modes were restored, what dpkg keeps, and the former accounts that its tools keep.
var changedByTools = regexp.MustCompile(`: /(usr/bin/(id|sleep)|var/lib/dpkg/status(-old)?|etc/(passwd|shadow|group|gshadow|subuid|subgid)-)($|:)`)

// TestClean has a real Debian machine recorded, changed as bootstraps change machines, and reset: it is proved clean, also when only its power
// was cut, and no file is another one than before. The machine has no agent, but a test of the reset that runs there.
func TestClean(t *testing.T) {
	program := filepath.Join(t.TempDir(), "reset.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-trimpath", "-ldflags", "-s -w", "-o", program, "github.com/slipway-dev/slipway/internal/agent/effects/reset")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := newMachine(t)
	boot(t, m)
	m.must(t, "systemctl is-system-running --wait || systemctl --failed")
	const folder = "/var/lib/slipway-agent"
	m.must(t, "mkdir "+folder)
	if err := m.Send(t.Context(), program, folder+"/reset.test"); err != nil {
		t.Fatal(err)
	}
	t.Log(m.must(t, ofOperator))
	before := snapshot(t, m)
	step := func(name string) {
		t.Helper()
		out, err := m.within(scriptTakes, "SLIPWAY_TEST_MACHINE="+name+" "+folder+"/reset.test -test.run='^TestOnMachine$' -test.v")
		t.Logf("%s: %s", name, out)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	step("record")
	m.must(t, "sync")
	if err := m.PowerCut(); err != nil {
		t.Fatal(err)
	}
	boot(t, m)
	m.must(t, "systemctl is-system-running --wait || systemctl --failed")
	step("reset")
	step("record")
	t.Log(m.must(t, ofBootstrap))
	step("made")
	step("reset")
	if is := m.must(t, "stat -c %a /usr/bin/id; getcap /usr/bin/sleep; systemctl is-active own.service own.timer cron systemd-timesyncd console-getty debug-shell || true"); is != "755\nactive\nactive\nactive\nactive\ninactive\ninactive\n" {
		t.Errorf("programs and services are %q", is)
	}
	m.must(t, "rm -r "+folder+"/records "+folder+"/tested.json")
	for _, change := range snapshot(t, m).Since(before) {
		if !changedByTools.MatchString(change) {
			t.Error(change)
		}
	}
}
