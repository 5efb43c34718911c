package software

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// Units whose software would share the runtime's socket, or the kubelet's name.
var (
	runtimeUnits   = []string{"containerd.service", "docker.service", "crio.service"}
	packageUnits   = []string{"/usr/lib/systemd/system", "/lib/systemd/system"}
	runtimeSockets = []string{"/run/containerd/containerd.sock", "/run/docker.sock", "/run/crio/crio.sock"}
)

const byYourself = "or install the software of this host by yourself and leave out `software install` (docs/host-software.md)"

// checkForeign refuses a host whose container runtime or kubelet belongs to somebody
// else. A runtime that is installed and neither starts at boot nor runs is in nobody's
// way.
func checkForeign(root hostfs.Root) error {
	var errs []error
	for _, unit := range runtimeUnits {
		found, err := filepath.Glob(root.Path("/etc/systemd/system/*.wants/" + unit))
		if err != nil {
			return err
		}
		if len(found) > 0 {
			errs = append(errs, refuse(ReasonForeign, "%s starts at boot: another container runtime is in use on this host. If nobody needs it, `systemctl disable --now %s`, %s",
				unit, unit, byYourself))
		}
	}
	for _, socket := range runtimeSockets {
		if root == "" && answers(socket) {
			errs = append(errs, refuse(ReasonForeign, "a container runtime that is not Slipway's answers on %s. If nobody needs it, stop and disable it, %s", socket, byYourself))
		}
	}
	for _, dir := range packageUnits {
		if _, err := os.Lstat(root.Path(dir + "/kubelet.service")); err == nil {
			errs = append(errs, refuse(ReasonForeign, "%s/kubelet.service is there: this host has a kubelet from a package. Remove the packages kubelet and kubeadm, %s", dir, byYourself))
			break
		}
	}
	return errors.Join(errs...)
}

// answers tells a server from a socket that one left.
func answers(socket string) bool {
	connection, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	_ = connection.Close()
	return true
}

var nodeFiles = []string{"/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/config.yaml"}

// NodeFiles are there while the host is a node.
func NodeFiles() []string { return slices.Clone(nodeFiles) }

// CheckUnused returns an *Error while a node runs by what is installed: all of it cannot be
// taken away then.
func (h *Host) CheckUnused() error {
	record, err := readRecord(h.Root)
	if err != nil {
		return err
	}
	var versions []string
	for _, r := range record.Releases {
		versions = append(versions, r.KubernetesVersion)
	}
	return checkUnused(h.Root, versions, len(versions) > 0)
}

// checkUnused refuses to take away what a node runs by: all of it, or the version that
// is chosen.
func checkUnused(root hostfs.Root, versions []string, all bool) error {
	const remedy = "delete its Machine and wait until the host is reset"
	if chosen, err := os.Readlink(root.Path("/usr/local/bin/kubelet")); err == nil {
		for _, v := range versions {
			if strings.Contains(chosen, "/kubernetes/"+v+"/") {
				return refuse(ReasonInUse, "the kubelet of this host is the one of Kubernetes %s; %s", v, remedy)
			}
		}
	}
	for _, path := range nodeFiles {
		if _, err := os.Lstat(root.Path(path)); all && err == nil {
			return refuse(ReasonInUse, "%s is there: the host is a node; %s", path, remedy)
		}
	}
	return nil
}
