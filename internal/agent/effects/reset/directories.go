package reset

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
)

// directories hold files of Kubernetes only. Their files go. So do they, unless they were
// there before a bootstrap: packages of the distribution make some.
var directories = []string{
	"/etc/kubernetes", "/var/lib/kubelet", "/var/lib/etcd", "/var/lib/cni", "/run/kubeadm", "/run/cluster-api", "/run/flannel",
}

// pluginDirectories are where the kubelet looks for FlexVolume drivers, from the top. It
// makes them; what was in them before is the operator's.
var pluginDirectories = []string{
	"/usr/libexec/kubernetes", "/usr/libexec/kubernetes/kubelet-plugins",
	"/usr/libexec/kubernetes/kubelet-plugins/volume", "/usr/libexec/kubernetes/kubelet-plugins/volume/exec",
}

// certificateDirectories are what the pods of a control plane mount, from the top. A machine
// without the certificates of a distribution has none, and the kubelet makes them
// (DirectoryOrCreate in kubeadm, cmd/kubeadm/app/phases/controlplane/volumes.go).
var certificateDirectories = []string{"/etc/ssl", "/etc/ssl/certs"}

// absent are those that are not there.
func (c Cleaner) absent() []string {
	return slices.DeleteFunc(slices.Concat(directories, pluginDirectories, certificateDirectories), func(dir string) bool {
		_, err := os.Lstat(c.Root.Path(dir))
		return !errors.Is(err, fs.ErrNotExist)
	})
}

// removeAbsent removes those that were not there before, the deepest first. One with
// something in it stays. One that is not there is not asked to go: on a read-only /usr that
// fails, too.
func (c Cleaner) removeAbsent(baseline *journal.Baseline) error {
	if baseline == nil {
		return nil
	}
	var errs []error
	for _, dir := range slices.Backward(baseline.Absent) {
		path := c.Root.Path(dir)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		err := os.Remove(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
