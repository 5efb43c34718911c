package fakehost

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// What kubeadm writes for the kubelet, and the flag that it moves from the one to the other.
const (
	kubeletConfig   = "/var/lib/kubelet/config.yaml"
	kubeletInstance = "/var/lib/kubelet/instance-config.yaml"
	kubeletFlags    = "/var/lib/kubelet/kubeadm-flags.env"
	newKubelet      = "kind: KubeletConfiguration\nnew: true\n"
	kubeletProcess  = "/proc/4242/cmdline"
	kubeletRuntime  = `KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///a"`
)

// Kubelet is what kubeadm writes for the kubelet of a host.
type Kubelet struct {
	root hostfs.Root
	// Cut, when it is not nil, is asked before each write of kubeadm. When it returns true,
	// the power is cut there.
	Cut func() bool
}

// MakeWorker has kubeadm write the configuration of the kubelet as it does on a worker.
func (h *Host) MakeWorker(t *testing.T) *Kubelet {
	t.Helper()
	k := &Kubelet{root: h.Root}
	h.Put(t, kubeletConfig, "kind: KubeletConfiguration\n")
	h.Put(t, kubeletFlags, kubeletRuntime)
	h.StartKubelet(t)
	h.Programs.Does = func(line string) error {
		switch {
		case !strings.Contains(line, "kubeadm upgrade node"):
			return nil
		case strings.Contains(line, " phase kubelet-config --dry-run"):
			return renderKubelet(line)
		case !strings.Contains(line, "upgrade node phase preflight"):
			return k.configureKubelet()
		case !k.Starts():
			return errors.New("no kubelet runs that would end the pods which have to go")
		default:
			return nil
		}
	}
	return k
}

// StartKubelet has a kubelet run until its unit is stopped.
func (h *Host) StartKubelet(t *testing.T) {
	h.Put(t, kubeletProcess, "kubelet\x00--config="+kubeletConfig+"\x00--max-pods=10\x00")
}

// kubelet is what a line answers that is about the kubelet which runs, or another that is tried.
func (p *Programs) kubelet(line string) string {
	switch {
	case line == "systemctl stop kubelet":
		_ = os.RemoveAll(filepath.Dir(p.root.Path(kubeletProcess)))
	case strings.HasPrefix(line, "systemctl show --property=MainPID"):
		if _, err := os.Stat(p.root.Path(kubeletProcess)); err == nil {
			return "4242\n"
		}
		return "0\n"
	case strings.Contains(line, " run --rm ") && strings.HasSuffix(line, " --heartbeat-interval=0"):
		return `{"level":"warn","msg":"failed to verify flags","error":"--heartbeat-interval must be >0 (set to 0ms)"}`
	case strings.Contains(line, " run --rm ") && strings.HasSuffix(line, " --secure-port=-1"):
		return `E1129 02:11:01.1 1 run.go:72] "command failed" err="--secure-port -1 must be between 1 and 65535, inclusive. It cannot be turned off with 0"`
	case strings.Contains(line, "WATCHDOG_USEC=1"):
		_, file, _ := strings.Cut(line, "--max-pods=10 --config=")
		if data, err := os.ReadFile(file); err != nil || !bytes.Contains(data, []byte("new: true")) {
			return `E1129 01:34:39.1 1 run.go:72] "command failed" err="the kubelet is tried without what kubeadm of the version wrote"`
		}
		return `E1129 01:35:16.3 1 run.go:72] "command failed" err="failed to run Kubelet: create health checker: configure watchdog timeout too small: 1µs"`
	}
	return ""
}

// renderKubelet writes what kubeadm would have the kubelet read into the directory that it is given.
func renderKubelet(line string) error {
	dir, _, given := strings.Cut(strings.TrimPrefix(line, "env KUBEADM_UPGRADE_DRYRUN_DIR="), " ")
	if !given {
		return errors.New("kubeadm has no directory")
	}
	return os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(newKubelet), 0o600)
}

// Configured says whether the configuration is that of the new version.
func (k *Kubelet) Configured() bool {
	config, err := os.ReadFile(k.root.Path(kubeletConfig))
	in, _ := k.runtime()
	return err == nil && bytes.Contains(config, []byte("new: true")) && in == kubeletInstance
}

// ErrPowerCut is what a program returns that ended with the host.
var ErrPowerCut = errors.New("the power was cut")

func (k *Kubelet) writes(write func() error) error {
	if k.Cut != nil && k.Cut() {
		return ErrPowerCut
	}
	return write()
}

// configureKubelet writes what the kubelet reads, with the endpoint of the container runtime in
// the one file before it is in the other.
func (k *Kubelet) configureKubelet() error {
	type file struct{ path, content string }
	files := []file{{kubeletConfig, newKubelet}}
	if _, err := os.Stat(k.root.Path(kubeletInstance)); err != nil {
		if _, found := k.runtime(); !found {
			return errors.New("kubeadm would write a kubelet without a container runtime")
		}
		files = append([]file{{kubeletFlags, `KUBELET_KUBEADM_ARGS=""`}, {kubeletInstance, "containerRuntimeEndpoint: unix:///a\n"}}, files...)
	} else if in, _ := k.runtime(); in != kubeletInstance {
		return errors.New("kubeadm cannot read the configuration of the kubelet")
	}
	for _, f := range files {
		for _, content := range []string{"", f.content} {
			if err := k.writes(func() error { return os.WriteFile(k.root.Path(f.path), []byte(content), 0o600) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// runtime says which file tells the kubelet its container runtime.
func (k *Kubelet) runtime() (file string, found bool) {
	for _, file := range []string{kubeletInstance, kubeletFlags} {
		if data, err := os.ReadFile(k.root.Path(file)); err == nil && bytes.Contains(data, []byte("unix:///a")) {
			return file, true
		}
	}
	return "", false
}

// Starts says whether the kubelet starts after a power cut.
func (k *Kubelet) Starts() bool {
	config, err := os.ReadFile(k.root.Path(kubeletConfig))
	_, found := k.runtime()
	return err == nil && len(config) > 0 && found
}
