package preflight

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/slipway-dev/slipway/internal/agent/hostos/kubelet"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
)

// tools that kubeadm, the kubelet or the network plugins call by name.
var tools = []struct {
	program, deb, rpm string
	level             Level
}{
	{"ip", "iproute2", "iproute", Error},
	{"mount", "mount", "util-linux", Error},
	{"ethtool", "ethtool", "ethtool", Warning},
	{"conntrack", "conntrack", "conntrack-tools", Warning},
}

func checkTools(_ context.Context, s *scope) []Finding {
	var found []Finding
	for _, t := range tools {
		if !s.Has(t.program) {
			found = append(found, bad(t.level, s.distro.install(t.deb, t.rpm), "%s is not on PATH", t.program)...)
		}
	}
	if len(found) == 0 {
		return good("all there")
	}
	return found
}

// checkPacketFilter is about what kube-proxy and the kubelet program rules with.
func checkPacketFilter(ctx context.Context, s *scope) []Finding {
	nft, iptables := s.Has("nft"), s.Has("iptables")
	switch {
	case !nft && !iptables:
		return bad(Error, s.distro.install("nftables iptables", "nftables iptables-nft"), "neither nft nor iptables is on PATH")
	case !iptables:
		return bad(Warning, s.distro.install("iptables", "iptables-nft"), "there is no iptables: network plugins that call it on the host do not work")
	}
	out, _ := s.Run(ctx, "iptables", "--version")
	if strings.Contains(out, "legacy") && nft {
		return bad(Warning, s.distro.either("sudo update-alternatives --set iptables /usr/sbin/iptables-nft", "sudo dnf swap -y iptables-legacy iptables-nft"),
			"iptables writes to the legacy tables while nft is there: rules of both kinds on one host are hard to follow")
	}
	return good("%s", strings.TrimSpace(out))
}

var (
	versionPattern = regexp.MustCompile(`v?\d+\.\d+\.\d+`)
	// oldestContainerd works with Kubernetes up to 1.35, currentContainerd with all.
	oldestContainerd  = version.MustParseGeneric("1.7.0")
	currentContainerd = version.MustParseGeneric("2.0.0")

	criDisabled   = regexp.MustCompile(`(?m)^\s*disabled_plugins\s*=\s*\[[^\]]*["'](io\.containerd\.grpc\.v1\.)?cri["']`)
	systemdCgroup = regexp.MustCompile(`(?m)^\s*SystemdCgroup\s*=\s*true`)
)

const containerdConfig = "/etc/containerd/config.toml"

func checkRuntime(ctx context.Context, s *scope) []Finding {
	if !s.Has("containerd") {
		if s.exists(s.config.CRISocket) {
			return bad(Warning, "", "%s is there but containerd is not on PATH: another container runtime is not tested with slipway", s.config.CRISocket)
		}
		return bad(Error, installAll+s.installContainerd(), "containerd is not installed")
	}
	out, _ := s.Run(ctx, "containerd", "--version")
	v, err := version.ParseGeneric(versionPattern.FindString(out))
	var found []Finding
	switch {
	case err != nil:
		found = bad(Warning, "", "the version of containerd could not be read from %q", strings.TrimSpace(out))
	case v.LessThan(oldestContainerd):
		found = bad(Error, s.installContainerd(), "containerd %s is older than %s, which no supported Kubernetes works with", v, oldestContainerd)
	case v.LessThan(currentContainerd):
		found = bad(Warning, s.installContainerd(), "containerd %s: Kubernetes 1.36 needs %s", v, currentContainerd)
	}
	found = append(found, s.runtimeConfig()...)
	found = append(found, s.runtimeService(ctx)...)
	if !s.Has("runc") {
		found = append(found, bad(Error, s.distro.install("runc", "runc"), "runc is not on PATH")...)
	}
	if len(found) == 0 {
		return good("containerd %s", v)
	}
	return found
}

// installContainerd is the way by hand. The packages of Debian and Ubuntu are too old: 1.6
// in Debian 12, 1.7 in Debian 13. Those of Docker are containerd alone, without Docker.
func (s *scope) installContainerd() string {
	switch s.distro.family {
	case familyRPM:
		return "sudo dnf config-manager --add-repo https://download.docker.com/linux/centos/docker-ce.repo && sudo dnf install -y containerd.io"
	case familyDeb:
		return fmt.Sprintf(`sudo apt-get install -y ca-certificates curl && sudo install -d -m 0755 /etc/apt/keyrings && `+
			`sudo curl -fsSL https://download.docker.com/linux/%[1]s/gpg -o /etc/apt/keyrings/docker.asc && `+
			`echo "deb [signed-by=/etc/apt/keyrings/docker.asc] https://download.docker.com/linux/%[1]s $(. /etc/os-release && echo "${UBUNTU_CODENAME:-$VERSION_CODENAME}") stable" | `+
			`sudo tee /etc/apt/sources.list.d/docker.list && sudo apt-get update && sudo apt-get install -y containerd.io`, s.distro.archive)
	case familyOther:
	}
	return s.distro.install("containerd", "containerd.io")
}

// installAll is the remedy where nothing is installed, ahead of the way by hand.
const installAll = "sudo slipway-agent software install --from DIR --public-key FILE (all of it), or "

// runtimeFiles are the configuration and the unit of containerd: those of `slipway-agent
// software install`, or of a package.
func (s *scope) runtimeFiles() (config, unit string) {
	if s.exists("/etc/systemd/system/slipway-containerd.service") {
		return "/etc/slipway/containerd.toml", "slipway-containerd"
	}
	return containerdConfig, "containerd"
}

func (s *scope) runtimeConfig() []Finding {
	config, unit := s.runtimeFiles()
	write := "containerd config default | sed 's/SystemdCgroup = false/SystemdCgroup = true/' | sudo tee " + config + " && sudo systemctl restart " + unit
	text := s.text(config)
	switch {
	case criDisabled.MatchString(text):
		return bad(Error, write, "%s switches the CRI plugin off, as Docker's package does: the kubelet cannot use this containerd", config)
	case s.exists("/run/systemd/system") && !systemdCgroup.MatchString(text):
		return bad(Warning, write, "%s does not set SystemdCgroup = true: kubeadm sets the kubelet up for systemd's cgroups, and both must agree", config)
	}
	return nil
}

func (s *scope) runtimeService(ctx context.Context) []Finding {
	_, unit := s.runtimeFiles()
	start := "sudo systemctl enable --now " + unit
	if !s.exists(s.config.CRISocket) {
		return bad(Error, start, "the socket %s is not there: containerd does not run, or criSocket of the agent's configuration is another", s.config.CRISocket)
	}
	if _, err := s.Run(ctx, "systemctl", "is-enabled", unit); err != nil {
		return bad(Warning, start, "containerd is not started at boot")
	}
	return nil
}

// chosenKubelet is where the agent links the kubelet of the version it chose.
const chosenKubelet = "/usr/local/bin/kubelet"

func checkKubernetes(ctx context.Context, s *scope) []Finding {
	versions, found := s.sideBySide()
	packaged, more := s.packaged(ctx)
	found = append(found, more...)
	if packaged != "" && !slices.Contains(versions, packaged) {
		versions = append(versions, packaged)
	}
	if len(versions) == 0 && len(found) == 0 {
		return bad(Error, installAll+s.installKubernetes(), "no Kubernetes version is installed: want kubeadm and kubelet on PATH, or in %s/<version>/", s.config.KubernetesDirectories[0])
	}
	found = append(found, s.kubeletUnit(ctx, packaged, len(versions))...)
	if len(found) == 0 {
		slices.Sort(versions)
		return good("%s", strings.Join(versions, ", "))
	}
	return found
}

// sideBySide lists the versions in directories, and those that are not complete.
func (s *scope) sideBySide() (versions []string, found []Finding) {
	for _, dir := range s.config.KubernetesDirectories {
		for _, path := range s.Glob(filepath.Join(dir, "v*")) {
			for _, program := range []string{"kubeadm", "kubelet"} {
				if !s.exists(filepath.Join(path, program)) {
					found = append(found, bad(Error, fmt.Sprintf("put %s of Kubernetes %s into %s", program, filepath.Base(path), path), "%s lacks %s", path, program)...)
				}
			}
			versions = append(versions, filepath.Base(path))
		}
	}
	return versions, found
}

// packaged is the version on PATH.
func (s *scope) packaged(ctx context.Context) (string, []Finding) {
	if !s.Has("kubelet") && !s.Has("kubeadm") {
		return "", nil
	}
	kubelet, _ := s.Run(ctx, "kubelet", "--version")
	kubeadm, _ := s.Run(ctx, "kubeadm", "version", "-o", "short")
	kubelet, kubeadm = versionPattern.FindString(kubelet), versionPattern.FindString(kubeadm)
	if kubelet != kubeadm {
		return kubelet, bad(Error, s.installKubernetes(), "kubelet is %s and kubeadm is %s on PATH: both must be of one version", orNone(kubelet), orNone(kubeadm))
	}
	return kubelet, nil
}

func orNone(version string) string {
	if version == "" {
		return "missing"
	}
	return version
}

// kubeletUnit checks that systemd starts the kubelet, and the one that is chosen.
func (s *scope) kubeletUnit(ctx context.Context, packaged string, versions int) []Finding {
	unit, err := s.Run(ctx, "systemctl", "cat", "kubelet")
	if err != nil || unit == "" {
		return bad(Error, "install the unit and drop-in that Kubernetes publishes for kubeadm (with packages: kubelet) as /etc/systemd/system/kubelet.service{,.d/10-kubeadm.conf}",
			"there is no unit kubelet.service")
	}
	// is-enabled fails, too, for what it answers.
	switch state, _ := s.Run(ctx, "systemctl", "is-enabled", "kubelet"); strings.TrimSpace(state) {
	case "masked", "masked-runtime":
		return bad(Error, "sudo systemctl unmask kubelet", "kubelet.service is masked: systemd never starts the kubelet")
	case "disabled", "enabled-runtime":
		return bad(Warning, "sudo systemctl enable kubelet",
			"systemd does not start the kubelet at boot; the agent enables it when the host becomes a node")
	}
	program := kubelet.UnitProgram(unit)
	if program == "" || program == chosenKubelet || versions < 2 && packaged != "" {
		return nil
	}
	return bad(Warning, fmt.Sprintf("sudo systemctl edit kubelet: add [Service], an empty ExecStart= and the unit's ExecStart= with %s instead of %s", chosenKubelet, program),
		"kubelet.service starts %s: versions installed side by side are chosen by links in %s and would not be used", program, filepath.Dir(chosenKubelet))
}

func (s *scope) installKubernetes() string {
	const add = "add the repository https://pkgs.k8s.io/core:/stable:/v1.36/%s/ (see kubernetes.io, \"Installing kubeadm\"), then "
	switch s.distro.family {
	case familyDeb:
		return fmt.Sprintf(add, "deb") + "sudo apt-get update && sudo apt-get install -y kubelet kubeadm kubectl && sudo apt-mark hold kubelet kubeadm kubectl"
	case familyRPM:
		return fmt.Sprintf(add, "rpm") + "sudo dnf install -y kubelet kubeadm kubectl --disableexcludes=kubernetes"
	case familyOther:
	}
	return "install kubelet, kubeadm and kubectl of one version, and the unit kubelet.service"
}

// checkClean finds what another cluster left. A host that the agent has made a node
// itself is not judged: its journal knows.
func checkClean(_ context.Context, s *scope) []Finding {
	if s.exists(filepath.Join(s.config.StateDir, config.JournalFile)) {
		return good("enrolled before; `slipway-agent status` tells what it is")
	}
	const remedy = "sudo kubeadm reset --force && sudo rm -rf /etc/cni/net.d /var/lib/etcd"
	for _, path := range []string{"/etc/kubernetes/kubelet.conf", "/etc/kubernetes/admin.conf", "/etc/kubernetes/manifests/*.yaml", "/var/lib/kubelet/config.yaml", "/var/lib/etcd/member"} {
		if left := s.Glob(path); len(left) > 0 {
			return bad(Error, remedy, "%s is there: the host is a node already, or was one; slipway takes over no such host", left[0])
		}
	}
	if left := s.Glob("/etc/cni/net.d/*.conf*"); len(left) > 0 {
		return bad(Warning, "remove it unless it is meant for all clusters this host will be part of", "%s is there: pods would use it before the cluster's own network is up", left[0])
	}
	return good("nothing of another cluster is there")
}
