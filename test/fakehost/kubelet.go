package fakehost

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// What kubeadm writes for the kubelet, and the flag that it moves from the one to the other.
const (
	kubeletConfig   = "/var/lib/kubelet/config.yaml"
	kubeletInstance = "/var/lib/kubelet/instance-config.yaml"
	kubeletFlags    = "/var/lib/kubelet/kubeadm-flags.env"
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
	h.Programs.Does = func(line string) error {
		switch {
		case !strings.Contains(line, "kubeadm upgrade node"):
			return nil
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
	files := []file{{kubeletConfig, "kind: KubeletConfiguration\nnew: true\n"}}
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
