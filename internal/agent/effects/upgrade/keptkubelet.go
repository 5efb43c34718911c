package upgrade

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

// What kubeadm writes for the kubelet. Without it the kubelet does not start after a power cut,
// and so no etcd of this host, for which an upgrade waits.
const (
	kubeletDir       = "/var/lib/kubelet"
	kubeletConfig    = "config.yaml"
	kubeletInstance  = "instance-config.yaml"
	kubeletFlags     = "kubeadm-flags.env"
	runtimeOfFlags   = "--container-runtime-endpoint="
	keptKubeletFiles = "kubelet"
)

var kubeletFiles = []string{kubeletConfig, kubeletInstance, kubeletFlags}

// keepKubelet copies the files of the kubelet that are there into a directory.
func (u Upgrader) keepKubelet(into string) error {
	if err := os.MkdirAll(into, 0o700); err != nil {
		return err
	}
	for _, name := range kubeletFiles {
		err := copyFile(filepath.Join(u.Root.Path(kubeletDir), name), filepath.Join(into, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// mendKubelet puts all of these files back when one is not in order: kubeadm moves the endpoint
// of the container runtime from one to another, by two writes. It writes them again later.
func (u Upgrader) mendKubelet(kept string) error {
	dir := u.Root.Path(kubeletDir)
	wrong := kubeletInOrder(dir)
	if wrong == nil {
		return nil
	}
	if err := kubeletInOrder(kept); err != nil {
		u.Log.Warn("the copy of the configuration of the kubelet is not in order", "directory", kept, "err", err)
		return nil
	}
	u.Log.Warn("the configuration of the kubelet is missing or broken; putting it back as it was before the upgrade", "err", wrong)
	return u.restoreKubelet(kept)
}

// restoreKubelet puts the files back as they were kept.
func (u Upgrader) restoreKubelet(kept string) error {
	dir := u.Root.Path(kubeletDir)
	for _, name := range kubeletFiles {
		err := copyFile(filepath.Join(kept, name), filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			// It was not there.
			err = os.RemoveAll(filepath.Join(dir, name))
		}
		if err != nil {
			return operation.Failf(operation.ReasonStepFailed, operation.RetryAfterReset, err, "put %s of the kubelet back", name)
		}
	}
	return nil
}

// kubeletInOrder says what is wrong with the files that kubeadm writes for the kubelet.
func kubeletInOrder(dir string) error {
	var config struct {
		Kind string `json:"kind"`
	}
	data, err := os.ReadFile(filepath.Join(dir, kubeletConfig))
	if err == nil {
		err = yaml.Unmarshal(data, &config)
	}
	if err == nil && config.Kind != "KubeletConfiguration" {
		err = fmt.Errorf("%s is no KubeletConfiguration", kubeletConfig)
	}
	if err != nil {
		return err
	}
	var instance struct {
		Endpoint string `json:"containerRuntimeEndpoint"`
	}
	data, err = os.ReadFile(filepath.Join(dir, kubeletInstance))
	if err == nil {
		err = yaml.Unmarshal(data, &instance)
		if err == nil && instance.Endpoint == "" {
			err = fmt.Errorf("%s names no container runtime", kubeletInstance)
		}
		return err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err = os.ReadFile(filepath.Join(dir, kubeletFlags))
	if err == nil && !strings.Contains(string(data), runtimeOfFlags) {
		err = fmt.Errorf("%s names no container runtime", kubeletFlags)
	}
	return err
}
