package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// packageManager installs and removes a format of packages.
type packageManager struct {
	format, program string
	// list prints the files of a package file, install installs it, and remove and purge take the
	// installed one away.
	list, install, remove, purge string
}

var packageManagers = []packageManager{
	{"deb", "dpkg", "dpkg-deb --fsys-tarfile %s | tar -t | sed 's/^[.]//' | grep -v '/$'", "dpkg --install %s", "dpkg --remove slipway-agent", "dpkg --purge slipway-agent"},
	// rpm of Debian wants to be told that it is not the package manager of the machine.
	{"rpm", "rpm", "rpm -qp --list %s | grep -vx /usr/share/doc/slipway-agent", "rpm --force-debian --install --nodeps %s", "rpm --force-debian --erase --nodeps slipway-agent", ""},
}

// machineScript makes a machine of a mount namespace: the files of this one, on which nothing
// is that Slipway or a node brings, and a systemd that only writes down what it is told.
const machineScript = `set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o lowerdir=/,upperdir="$1/upper",workdir="$1/work" "$1/root"
cd "$1/root"
mount --rbind /proc proc
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mkdir -p run/systemd/system
rm -rf etc/slipway etc/kubernetes var/lib/kubelet var/lib/slipway* opt/slipway usr/local/bin/slipway-agent
rm -f usr/bin/systemctl
printf '#!/bin/sh\necho "$*" >>/run/systemctl.log\n' >usr/bin/systemctl
chmod 0755 usr/bin/systemctl
exec env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin chroot . sh -ec "$2"
`

// everything prints all that a package could leave behind, but for what managers keep for themselves.
const everything = `find /etc /opt /usr /var/lib /var/log -xdev | grep -vE '^/(var/(lib|log)/(dpkg|rpm)|etc/ld.so.cache|var/log/(alternatives|dpkg).log)' | sort`

// lifeScript is the life of a package on a machine: installed, kept on a node, and gone.
func lifeScript(m packageManager, file, version string) string {
	gone := m.purge
	if gone == "" {
		// what only a person may take away then
		gone = m.remove + "; rm -r /etc/slipway /var/lib/slipway-agent"
	}
	return fmt.Sprintf(`%[1]s >/run/before
%[2]s >&2
[ "$(command -v slipway-agent)" = /usr/bin/slipway-agent ]
slipway-agent --version | grep -qF '%[3]s'
grep -q '^ExecStart=/usr/bin/slipway-agent run ' /usr/lib/systemd/system/slipway-agent.service
grep -qx daemon-reload /run/systemctl.log
grep -q '^try-restart' /run/systemctl.log

mkdir -p /etc/slipway /var/lib/slipway-agent /etc/kubernetes
printf 'apiVersion: agent.slipway.dev/v1alpha1\nkind: AgentConfiguration\nnamespace: prod\n' >/etc/slipway/agent.yaml
touch /var/lib/slipway-agent/identity.key /etc/kubernetes/kubelet.conf
if %[4]s >/run/refused 2>&1; then echo 'the agent of a node was removed' >&2; exit 1; fi
grep -q 'the host is a node' /run/refused || { cat /run/refused >&2; exit 1; }
slipway-agent --version >/dev/null
! grep -q disable /run/systemctl.log

rm -r /etc/kubernetes
%[4]s >&2
grep -q 'disable --now slipway-agent.service' /run/systemctl.log
[ ! -e /usr/bin/slipway-agent ]
[ -e /etc/slipway/agent.yaml ] && [ -e /var/lib/slipway-agent/identity.key ]

%[2]s >&2
%[5]s >&2
%[1]s >/run/after
diff /run/before /run/after
`, everything, fmt.Sprintf(m.install, file), version, m.remove, gone)
}

// checkPackages installs and removes the packages with the package managers of distributions.
func checkPackages(t *testing.T, r *release) {
	for _, m := range packageManagers {
		t.Run(m.format, func(t *testing.T) {
			file := r.binary(agent, platform{"linux", runtime.GOARCH}) + "." + m.format
			if _, err := exec.LookPath(m.program); err != nil {
				t.Skipf("there is no %s here", m.program)
			}
			list, err := exec.CommandContext(t.Context(), "sh", "-c", fmt.Sprintf(m.list, file)).CombinedOutput()
			const want = "/usr/bin/slipway-agent\n/usr/lib/systemd/system/slipway-agent.service\n/usr/share/doc/slipway-agent/copyright\n"
			if err != nil || string(list) != want {
				t.Errorf("it has %s, %v; want %s", list, err, want)
			}
			if os.Geteuid() != 0 {
				t.Skip("needs root to install it")
			}
			cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "sh", "-c", machineScript, "sh", t.TempDir(), lifeScript(m, file, r.version))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// A unit that starts something else is no unit of a package.
func TestPackagedUnit(t *testing.T) {
	for content, wrong := range map[string]bool{
		"ExecStart=/usr/local/bin/slipway-agent run\n":                                             false,
		"ExecStart=/usr/bin/slipway-agent run\n":                                                   true,
		"ExecStart=/usr/local/bin/slipway-agent run\nExecStop=/usr/local/bin/slipway-agent stop\n": true,
	} {
		r := &release{source: t.TempDir()}
		if err := os.MkdirAll(filepath.Join(r.source, "config", "agent"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.source, "config", "agent", "slipway-agent.service"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		path, err := r.packagedUnit(t.TempDir())
		if (err != nil) != wrong {
			t.Errorf("%q: %v", content, err)
		}
		if err != nil {
			continue
		}
		if data, err := os.ReadFile(path); err != nil || strings.Contains(string(data), "/usr/local") || !strings.Contains(string(data), "ExecStart=/usr/bin/slipway-agent run") {
			t.Errorf("%s, %v", data, err)
		}
	}
}
