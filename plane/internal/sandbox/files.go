package sandbox

import (
	"crypto/sha256"
	_ "embed" // containerd.toml, kubelet.conf
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/slipway-dev/slipway/internal/durable"
)

// containerdConfig has the placeholder @pauseImage@.
//
//go:embed containerd.toml
var containerdConfig string

// kubeletConfig is what a local host's kubelet needs whatever its cluster says.
//
//go:embed kubelet.conf
var kubeletConfig []byte

// Where the machine's software appears on a host, read-only.
const (
	bundleMount  = "/opt/slipway/bundle"
	programMount = "/opt/slipway/bin"
	// kubernetesLink is where the agent looks for the versions a host offers.
	kubernetesLink = "/opt/slipway/kubernetes"
	// kubeletConfigs is the directory whose files have the last word on the kubelet's
	// configuration (its flag --config-dir).
	kubeletConfigs = "/etc/slipway/kubelet.conf.d"
)

// baseFiles are the files that make a host out of an empty disk.
func baseFiles(s Spec) []File {
	toml := strings.ReplaceAll(containerdConfig, "@pauseImage@", s.PauseImage)
	files := []File{
		{Path: "/etc/hostname", Content: []byte(s.hostname() + "\n")},
		{Path: "/etc/hosts", Content: fmt.Appendf(nil, "127.0.0.1 localhost\n::1 localhost ip6-localhost\n%s %s\n", s.IP, s.hostname())},
		{Path: "/etc/resolv.conf", Content: fmt.Appendf(nil, "nameserver %s\n", s.Gateway)},
		{Path: "/etc/machine-id", Mode: 0o444, Content: []byte(s.MachineID + "\n")},
		{Path: "/etc/containerd/config.toml", Content: []byte(toml)},
		{Path: filepath.Join(kubeletConfigs, "10-local-host.conf"), Content: kubeletConfig},
		{Path: "/etc/crictl.yaml", Content: []byte("runtime-endpoint: unix://" + containerdSocket + "\n")},
		{Path: kubernetesLink, Target: filepath.Join(bundleMount, "kubernetes")},
		{Path: "/usr/local/bin/slipway-agent", Target: filepath.Join(programMount, "slipway-agent")},
		// Both, since the machine's own systemctl is in /usr/bin.
		{Path: "/usr/local/bin/systemctl", Target: filepath.Join(programMount, "slipway-sandbox")},
		{Path: "/usr/bin/systemctl", Target: filepath.Join(programMount, "slipway-sandbox")},
		{Path: "/usr/local/bin/journalctl", Target: filepath.Join(programMount, "slipway-sandbox")},
		{Path: "/usr/bin/journalctl", Target: filepath.Join(programMount, "slipway-sandbox")},
	}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc"} {
		files = append(files, File{Path: filepath.Join("/usr/local/bin", name), Target: filepath.Join(bundleMount, "bin", name)})
	}
	// The agent points these links to the version of its operation.
	for _, name := range []string{"kubeadm", "kubelet", "kubectl"} {
		files = append(files, File{Path: filepath.Join("/usr/local/bin", name), Target: filepath.Join(kubernetesLink, s.KubernetesVersion, name)})
	}
	return files
}

// digest stands for all that apply writes.
func (f File) digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "%o\x00%s\x00", f.mode(), f.Target)
	h.Write(f.Content)
	return hex.EncodeToString(h.Sum(nil))
}

func (f File) mode() os.FileMode {
	if f.Mode == 0 {
		return 0o644
	}
	return f.Mode.Perm()
}

// applyFiles writes the files below root that are new or changed since the last
// time; which those are is remembered in the file memory.
func applyFiles(root, memory string, files []File) error {
	applied := map[string]string{}
	if err := readJSON(memory, &applied); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	changed := false
	for _, f := range files {
		digest := f.digest()
		if applied[f.Path] == digest {
			continue
		}
		if err := f.write(filepath.Join(root, f.Path)); err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
		applied[f.Path], changed = digest, true
	}
	if !changed {
		return nil
	}
	return writeJSON(memory, applied)
}

// write replaces path, without following a link that may be there.
func (f File) write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if f.Target != "" {
		return durable.Link(f.Target, path)
	}
	return durable.Replace(path, f.Content, f.mode(), durable.Keep, durable.Keep)
}
