package reset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/effects/logins"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/hostos/kubelet"
	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
)

// programs of Kubernetes that must not be running. The kernel keeps 15
// characters of a name.
var programs = []string{
	"kubelet", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "flanneld",
}

// Verify returns what is left of Kubernetes on the host, in words for a message.
func (c Cleaner) Verify(ctx context.Context, state journal.State) ([]string, error) {
	checks := []func() ([]string, error){
		c.leftProcesses,
		func() ([]string, error) { return c.leftPorts(state) },
		func() ([]string, error) { return c.leftContainers(ctx) },
		c.leftMounts,
		c.leftFiles,
		func() ([]string, error) { return c.leftWritten(state) },
		func() ([]string, error) { return c.leftCNIConfigs(state.Baseline) },
		func() ([]string, error) { return c.leftDropIns(state.Baseline) },
		func() ([]string, error) { return c.leftLinks(state.Programs), nil },
		func() ([]string, error) { return c.leftLogins(state) },
		func() ([]string, error) { return c.leftNetwork(state.Baseline) },
		func() ([]string, error) { return c.leftVIP(state.VirtualIP) },
		func() ([]string, error) { return c.leftByWorkloads(ctx, state) },
	}
	var left []string
	errs := make([]error, 0, len(checks))
	for _, check := range checks {
		found, err := check()
		left, errs = append(left, found...), append(errs, err)
	}
	return left, errors.Join(errs...)
}

func (c Cleaner) leftProcesses() ([]string, error) {
	entries, err := os.ReadDir(c.Root.Path("/proc"))
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var left []string
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		if name := c.program(e.Name()); name != "" {
			left = append(left, fmt.Sprintf("process %s (PID %s)", name, e.Name()))
		}
	}
	return left, nil
}

// program returns the name of a process that must not be there, or nothing.
func (c Cleaner) program(pid string) string {
	dir := c.Root.Path("/proc/" + pid)
	comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
	cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
	first, _, _ := bytes.Cut(cmdline, []byte{0})
	if len(first) == 0 {
		// A thread of the kernel or a process that has ended.
		return ""
	}
	names := []string{strings.TrimSpace(string(comm)), filepath.Base(string(first))}
	for _, p := range programs {
		if slices.Contains(names, p) || slices.Contains(names, p[:min(len(p), 15)]) {
			return p
		}
	}
	return ""
}

// leftPorts looks at the port of the control-plane endpoint, too, where the API server
// listened.
func (c Cleaner) leftPorts(state journal.State) ([]string, error) {
	apiServer := []int{kubelet.APIServerPort}
	if state.VirtualIPPort != 0 && !state.VirtualIPPortTaken {
		apiServer = append(apiServer, int(state.VirtualIPPort))
	}
	taken, err := kubelet.TakenPorts(c.Root.ReadFile, apiServer...)
	var left []string
	for _, port := range taken {
		left = append(left, fmt.Sprintf("listener on port %d", port))
	}
	return left, err
}

func (c Cleaner) leftContainers(ctx context.Context) ([]string, error) {
	ids, err := c.listContainers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the containers of Kubernetes: %w", err)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return []string{fmt.Sprintf("%d containers in containerd's namespace k8s.io", len(ids))}, nil
}

// containerMounts are parts of the paths at which containerd mounts what belongs to a pod,
// below its own state directory, wherever that is. Who removes a container past its CRI
// plugin, as a reset does with those that kubeadm did not stop, leaves them.
var containerMounts = []string{"/io.containerd.grpc.v1.cri/sandboxes/", "/io.containerd.runtime.v2.task/k8s.io/"}

// mounts below the directories that a reset empties, and those of pods.
func (c Cleaner) mounts() ([]string, error) {
	data, err := os.ReadFile(c.Root.Path("/proc/self/mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var found []string
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		point := unescape(fields[4])
		below := func(dir string) bool { return strings.HasPrefix(point, dir+"/") }
		ofPod := func(part string) bool { return strings.Contains(point, part) }
		if slices.ContainsFunc(directories, below) || slices.ContainsFunc(containerMounts, ofPod) {
			found = append(found, point)
		}
	}
	return found, nil
}

// unescape resolves the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

func (c Cleaner) leftMounts() ([]string, error) {
	mounts, err := c.mounts()
	left := make([]string, 0, len(mounts))
	for _, m := range mounts {
		left = append(left, "mount "+m)
	}
	return left, err
}

func (c Cleaner) leftFiles() ([]string, error) { return firstFiles(c.Root, directories) }

// firstFiles names one file per directory: any is one too many.
func firstFiles(root hostfs.Root, directories []string) ([]string, error) {
	var left []string
	for _, dir := range directories {
		file, err := firstFile(root.Path(dir))
		if err != nil {
			return nil, err
		}
		if file != "" {
			left = append(left, "file "+filepath.Join(dir, file))
		}
	}
	return left, nil
}

var errFound = errors.New("found")

// firstFile returns the relative path of a file below dir. Empty directories
// are no files: packages of the distribution make some.
func firstFile(dir string) (string, error) {
	found := ""
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		found, err = filepath.Rel(dir, path)
		return errors.Join(errFound, err)
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return found, err
}

// leftWritten names the files of the bootstrap that the reset could not remove. Those in
// directories of Kubernetes leftFiles names.
func (c Cleaner) leftWritten(state journal.State) ([]string, error) {
	var left []string
	for _, path := range written(state) {
		_, err := os.Lstat(c.Root.Path(path))
		below := func(dir string) bool { return strings.HasPrefix(path, dir+"/") }
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), slices.ContainsFunc(directories, below):
		case err != nil:
			return nil, fmt.Errorf("look for a file of the bootstrap: %w", err)
		default:
			left = append(left, "file "+path)
		}
	}
	return left, nil
}

func (c Cleaner) leftCNIConfigs(baseline *journal.Baseline) ([]string, error) {
	names, err := c.newCNIConfigs(baseline)
	for i, n := range names {
		names[i] = "file " + filepath.Join(cniConfigs, n)
	}
	return names, err
}

func (c Cleaner) leftLinks(before map[string]string) []string {
	names := kubelet.ChangedLinks(c.Root, before)
	for i, n := range names {
		names[i] = "choice of a version of " + n
	}
	return names
}

func (c Cleaner) leftNetwork(baseline *journal.Baseline) ([]string, error) {
	found, err := network.Leftovers(c.Network, baseline)
	left := make([]string, 0, len(found))
	for _, l := range found {
		left = append(left, l.Name)
	}
	return left, err
}

func (c Cleaner) leftVIP(address string) ([]string, error) {
	if address == "" {
		return nil, nil
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return nil, err
	}
	held, err := c.VIP.Held(ip)
	if !held {
		return nil, err
	}
	return []string{"virtual IP " + address}, err
}

// foreignCNIConfigs are the names of network configurations that other programs than
// Kubernetes' network plugins leave beside those.
var foreignCNIConfigs = []string{"*podman*", "*nerdctl*", "*crio*", "*loopback*"}

// NodeBaseline is the Baseline of a host that is a node already. What was there before
// the node nobody knows: names have to tell what is Kubernetes'.
func (c Cleaner) NodeBaseline(ctx context.Context) (*journal.Baseline, error) {
	b, err := c.Baseline(ctx)
	if err != nil {
		return nil, err
	}
	// Whoever may log in was let in by the operator.
	b.Logins = nil
	b.CNIConfigs = slices.DeleteFunc(b.CNIConfigs, func(name string) bool {
		return !slices.ContainsFunc(foreignCNIConfigs, func(p string) bool { ok, _ := filepath.Match(p, name); return ok })
	})
	return b, network.CaptureNode(c.Network, b)
}

// Baseline records what the host looks like before a bootstrap.
func (c Cleaner) Baseline(ctx context.Context) (*journal.Baseline, error) {
	images, err := c.listImages(ctx)
	if err != nil {
		return nil, err
	}
	before, err := logins.Read(c.Root)
	if err != nil {
		return nil, err
	}
	programs, err := c.captureDropIns()
	if err != nil {
		return nil, err
	}
	b := &journal.Baseline{Images: images, Logins: before, Absent: c.absent(), DropIns: programs}
	entries, err := os.ReadDir(c.Root.Path(cniConfigs))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		b.CNIConfigs = append(b.CNIConfigs, e.Name())
	}
	return b, network.Capture(c.Network, b)
}
