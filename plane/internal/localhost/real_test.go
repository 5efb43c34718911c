package localhost

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

// kubeadmConfig is a cluster of one control-plane host.
const kubeadmConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens:
- token: abcdef.0123456789abcdef
localAPIEndpoint: {advertiseAddress: %[1]s, bindPort: 6443}
nodeRegistration:
  name: %[2]s
  criSocket: unix:///run/containerd/containerd.sock
  imagePullPolicy: Never
  kubeletExtraArgs:
  - {name: node-ip, value: %[1]s}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %[3]s
controlPlaneEndpoint: %[1]s:6443
networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/16}
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
conntrack: {maxPerCore: 0, min: 0}
`

const kubeadmJoin = `apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery: {bootstrapToken: {token: abcdef.0123456789abcdef, apiServerEndpoint: "%[3]s:6443", unsafeSkipCAVerification: true}}
nodeRegistration:
  name: %[2]s
  criSocket: unix:///run/containerd/containerd.sock
  imagePullPolicy: Never
  kubeletExtraArgs:
  - {name: node-ip, value: %[1]s}
`

// TestKubeadmOnHost runs real kubeadm, kubelet and containerd on a host.
func TestKubeadmOnHost(t *testing.T) {
	dir, err := filepath.Abs("../../../bin/bundle")
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := LoadBundle(dir)
	if err != nil {
		rights.Skip(t, err)
	}
	level.Deep(t)
	before := inotifyInstances()
	m := newManager(t, dir)
	start := time.Now()
	host := bootHost(t, m, 1, nil)
	t.Logf("created and booted in %s", time.Since(start))
	poll.True(t, "containerd answers", func() bool {
		_, code := onHost(t, m, host, "ctr", "version")
		return code == 0
	})
	t.Logf("containerd answers after %s", time.Since(start))
	containers(t, m, host, bundle.Newest())
	h := hostOf(t, m, host)
	start = time.Now()
	kubeadm(t, m, host, "init", fmt.Sprintf(kubeadmConfig, h.IP, host, bundle.Newest()))
	t.Logf("kubeadm init in %s; %d inotify instances", time.Since(start), inotifyInstances()-before)
	mustOnHost(t, m, host, "systemctl", "is-active", "kubelet")

	before = inotifyInstances()
	start = time.Now()
	worker := bootHost(t, m, 2, nil)
	kubeadm(t, m, worker, "join", fmt.Sprintf(kubeadmJoin, hostOf(t, m, worker).IP, worker, h.IP))
	// kubeadm does not wait until the kubelet of a worker has registered.
	poll.True(t, "both nodes are registered", func() bool {
		_, code := onHost(t, m, host, "kubectl", "get", "node", host, worker)
		return code == 0
	})
	t.Logf("created, booted and joined a worker in %s; %d inotify instances", time.Since(start), inotifyInstances()-before)
	start = time.Now()
	if err := m.PowerOff(t.Context(), worker, true); err != nil {
		t.Fatal(err)
	}
	t.Logf("shut the worker down in %s", time.Since(start))

	start = time.Now()
	if err := m.PowerCycle(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "API server is back after a power cut", func() bool {
		_, code := onHost(t, m, host, "kubectl", "get", "--raw", "/readyz", "--request-timeout=2s")
		return code == 0
	})
	t.Logf("power-cycled, API server back after %s", time.Since(start))

	resetHost(t, m, host)
	start = time.Now()
	if err := m.DestroyAll(poll.Context(t), true); err != nil {
		t.Fatal(err)
	}
	t.Logf("destroyed in %s", time.Since(start))
}

// containers runs one as network plugins and kube-proxy are run: what a host is kept from
// must not keep it from that.
func containers(t *testing.T, m *Manager, host, version string) {
	t.Helper()
	image := "registry.k8s.io/kube-proxy:" + version
	for name, flags := range map[string][]string{
		"plain":      nil,
		"plugin":     {"--net-host", "--cap-add=CAP_NET_ADMIN", "--cap-add=CAP_NET_RAW"},
		"privileged": {"--net-host", "--privileged", "--mount=type=bind,src=/,dst=/host,options=rbind:rslave"},
	} {
		command := append([]string{"ctr", "-n", "k8s.io", "run", "--rm"}, flags...)
		if out := mustOnHost(t, m, host, append(command, image, name, "kube-proxy", "--version")...); out != "Kubernetes "+version {
			t.Errorf("a %s container says %q", name, out)
		}
	}
}

// resetHost runs kubeadm reset and checks that it found what it needs on a host.
func resetHost(t *testing.T, m *Manager, host string) {
	t.Helper()
	out := mustOnHost(t, m, host, "kubeadm", "reset", "--force")
	if !strings.Contains(out, "Stopping the kubelet service") {
		t.Errorf("kubeadm reset said: %s", out)
	}
	if out, code := onHost(t, m, host, "systemctl", "is-active", "kubelet"); out != "inactive" || code != 3 {
		t.Errorf("kubelet after reset: %s, exit code %d", out, code)
	}
	if out := mustOnHost(t, m, host, "ctr", "-n", "k8s.io", "tasks", "list", "-q"); out != "" {
		t.Errorf("containers after reset: %s", out)
	}
}

// kubeadm runs a phase with a configuration file.
func kubeadm(t *testing.T, m *Manager, host, verb, config string) {
	t.Helper()
	file := filepath.Join(m.Dir(host), "root", verb+".yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	// containerd answers on its socket a moment before its CRI service does
	// ("server is not initialized yet"); kubeadm's own checks tell when it is there.
	poll.True(t, "the container runtime is initialized", func() bool {
		_, code := onHost(t, m, host, "kubeadm", verb, "phase", "preflight", "--config", "/root/"+verb+".yaml")
		return code == 0
	})
	mustOnHost(t, m, host, "kubeadm", verb, "--config", "/root/"+verb+".yaml")
}
