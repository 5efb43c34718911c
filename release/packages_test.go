package main

import (
	"cmp"
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
	// list prints the files of a package file, install installs it, and remove and purge, followed
	// by its name, take it away.
	list, install, remove, purge string
}

var packageManagers = []packageManager{
	{"deb", "dpkg", "dpkg-deb --fsys-tarfile %s | tar -t | sed 's/^[.]//' | grep -v '/$'", "dpkg --install %s", "dpkg --remove", "dpkg --purge"},
	// rpm of Debian wants to be told that it is not the package manager of the machine.
	{"rpm", "rpm", "rpm -qp --list %s | grep -vxE '/usr/lib/slipway|/usr/share/doc/[^/]*'", "rpm --force-debian --install --nodeps %s", "rpm --force-debian --erase --nodeps", ""},
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
mount --rbind /sys sys
mount -t tmpfs tmpfs run
mkdir -p run/systemd/system
rm -rf etc/slipway etc/kubernetes var/lib/kubelet var/lib/slipway* opt/slipway usr/local/bin/slipway-agent usr/lib/slipway
rm -f usr/bin/systemctl
printf '#!/bin/sh\necho "$*" >>/run/systemctl.log\n' >usr/bin/systemctl
chmod 0755 usr/bin/systemctl
exec env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin chroot . sh -ec "$2"
`

// everything prints all that a package could leave behind, but for what managers keep for themselves.
const everything = `find /etc /opt /usr /var/lib /var/log -xdev | grep -vE '^/(var/(lib|log)/(dpkg|rpm)|etc/ld.so.cache|var/log/(alternatives|dpkg).log)' | sort`

// lifeOfAgent is the life of its package on a machine: installed, kept on a node, and gone.
func lifeOfAgent(m packageManager, file, version string) string {
	remove, gone := m.remove+" slipway-agent", m.purge+" slipway-agent"
	if m.purge == "" {
		// what only a person may take away then
		gone = remove + "; rm -r /etc/slipway /var/lib/slipway-agent"
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
`, everything, fmt.Sprintf(m.install, file), version, remove, gone)
}

// lifeOfPlane is the life of its package on a machine: a plane comes up from what the package
// brought, which cannot be removed meanwhile, and nothing is left.
func lifeOfPlane(m packageManager, file, version string) string {
	remove := m.remove + " slipway"
	return fmt.Sprintf(`%[1]s >/run/before
%[2]s >&2
grep -qx "try-restart slipway-plane-\*.service" /run/systemctl.log
[ "$(command -v slipway)" = /usr/bin/slipway ]
slipway version | grep -F '%[3]s' | grep -qF 'kube-apiserver v1.99.0'

export SLIPWAY_STATE_DIR=/run/planetest-release
trap 'slipway down --purge --yes >&2' EXIT
slipway up --name planetest-release --hosts 0 --no-cluster --fast --api-port "$(shuf -i 20000-30000 -n 1)" >&2
slipway status >/run/status
grep -q ready /run/status || { cat /run/status >&2; exit 1; }
if %[4]s >/run/refused 2>&1; then echo 'a plane that runs lost its program' >&2; exit 1; fi
grep -q 'a plane runs (pid' /run/refused || { cat /run/refused >&2; exit 1; }
slipway down --purge --yes >&2
trap - EXIT

mkdir -p /etc/systemd/system
echo 'ExecStart=/usr/lib/slipway/slipway serve' >/etc/systemd/system/slipway-plane-prod.service
if %[4]s >/run/refused 2>&1; then echo 'a service lost its program' >&2; exit 1; fi
grep -q 'a plane is the service slipway-plane-prod.service' /run/refused || { cat /run/refused >&2; exit 1; }
rm /etc/systemd/system/slipway-plane-prod.service

%[4]s >&2
[ ! -e /usr/lib/slipway ]
%[5]s >&2
%[1]s >/run/after
diff /run/before /run/after
`, everything, fmt.Sprintf(m.install, file), version, remove, cmp.Or(m.purge, "true")+" slipway")
}

// checkPackages installs and removes the packages with the package managers of distributions.
func checkPackages(t *testing.T, r *release) {
	for _, p := range []struct {
		name, files string
		life        func(packageManager, string, string) string
	}{
		{agent, "/usr/bin/slipway-agent\n/usr/lib/systemd/system/slipway-agent.service\n/usr/share/doc/slipway-agent/copyright\n", lifeOfAgent},
		{planeProgram, "/usr/bin/slipway\n/usr/lib/slipway/LICENSE\n/usr/lib/slipway/slipway\n/usr/lib/slipway/slipway-agent\n/usr/lib/slipway/slipway-lifecycle\n" +
			"/usr/lib/slipway/slipway-sandbox\n/usr/share/doc/slipway/copyright\n", lifeOfPlane},
	} {
		for _, m := range packageManagers {
			t.Run(p.name+" "+m.format, func(t *testing.T) {
				file := filepath.Join(r.assets(), p.name+"-linux-"+runtime.GOARCH+"."+m.format)
				if _, err := exec.LookPath(m.program); err != nil {
					t.Skipf("there is no %s here", m.program)
				}
				list, err := exec.CommandContext(t.Context(), "sh", "-c", fmt.Sprintf(m.list, file)).CombinedOutput()
				if err != nil || string(list) != p.files {
					t.Errorf("it has %s, %v; want %s", list, err, p.files)
				}
				if os.Geteuid() != 0 {
					t.Skip("needs root to install it")
				}
				cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "sh", "-c", machineScript, "sh", t.TempDir(), p.life(m, file, r.version))
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
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
