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

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/hostos/kubelet"
)

// programs of Kubernetes that must not be running. The kernel keeps 15
// characters of a name.
var programs = []string{
	"kubelet", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "flanneld",
}

// processes lists the programs of Kubernetes, and those in the cgroups of pods, by PID.
func (c Cleaner) processes(context.Context) (entries, error) {
	all, err := os.ReadDir(c.Root.Path("/proc"))
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	found := entries{}
	for _, e := range all {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		if name := c.program(e.Name()); name != "" {
			found[e.Name()] = fmt.Sprintf("%s (PID %s)", name, e.Name())
		}
	}
	return found, nil
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
	if cgroup, _ := os.ReadFile(filepath.Join(dir, "cgroup")); podProcess(string(cgroup)) {
		return names[0] + " of a pod"
	}
	return ""
}

// podProcess says of /proc/PID/cgroup whether the process is in a container of a pod.
func podProcess(cgroup string) bool {
	for line := range strings.Lines(cgroup) {
		for part := range strings.SplitSeq(strings.TrimSpace(line), "/") {
			if ofPods(part) {
				return true
			}
		}
	}
	return false
}

// kill ends the processes of containers that no runtime knows any more. Programs of Kubernetes
// have a unit, or a container.
func (c Cleaner) kill(_ context.Context, pids []string) error {
	if c.Root != "" {
		return nil // those of a pretended host are none of this machine
	}
	var errs []error
	for _, pid := range pids {
		cgroup, _ := os.ReadFile("/proc/" + pid + "/cgroup")
		number, err := strconv.Atoi(pid)
		if err != nil || number <= 1 || number == os.Getpid() || !podProcess(string(cgroup)) {
			continue
		}
		if err := unix.Kill(number, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("end process %d of a pod: %w", number, err))
		}
	}
	return errors.Join(errs...)
}

// ports looks at the port of the control-plane endpoint, too, where the API server
// listened.
func (c Cleaner) ports(state journal.State) (entries, error) {
	apiServer := []int{kubelet.APIServerPort}
	if state.VirtualIPPort != 0 && !state.VirtualIPPortTaken {
		apiServer = append(apiServer, int(state.VirtualIPPort))
	}
	taken, err := kubelet.TakenPorts(c.Root.ReadFile, apiServer...)
	found := entries{}
	for _, port := range taken {
		found[strconv.Itoa(port)] = "listens"
	}
	return found, err
}

func (c Cleaner) containersOfRuntime(ctx context.Context) (entries, error) {
	ids, err := c.listContainers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the containers of Kubernetes: %w", err)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return entries{fmt.Sprintf("%d containers in containerd's namespace k8s.io", len(ids)): "there"}, nil
}

// containerMounts are parts of the paths at which containerd mounts what belongs to a pod,
// below its own state directory, wherever that is. Who removes a container past its CRI
// plugin, as a reset does with those that kubeadm did not stop, leaves them.
var containerMounts = []string{"/io.containerd.grpc.v1.cri/sandboxes/", "/io.containerd.runtime.v2.task/k8s.io/"}

// mounts are all of the agent's mount namespace by their mount point; one on top of another has a
// number. The value has the type of the file system and what of it is mounted.
func (c Cleaner) mounts() (entries, error) {
	data, err := c.Root.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	found := entries{}
	for line := range strings.Lines(string(data)) {
		fields, after, _ := strings.Cut(line, " - ")
		before := strings.Fields(fields)
		if len(before) < 6 {
			continue
		}
		kind, _, _ := strings.Cut(strings.TrimSpace(after), " ")
		point := unescape(before[4])
		name := point
		for n := 2; found[name] != ""; n++ {
			name = point + onTop + strconv.Itoa(n) + ")"
		}
		found[name] = kind + " " + strings.ReplaceAll(unescape(before[3]), " ", `\040`) + " " + access(before[5]) + " " + propagation(before[6:]) + " " + forbids(before[5])
	}
	return found, nil
}

// sameMount says of two mounts whether the same is mounted, whatever its options.
func sameMount(a, b string) bool {
	was, is := strings.Fields(a), strings.Fields(b)
	return len(was) >= 2 && len(is) >= 2 && was[0] == is[0] && was[1] == is[1]
}

const (
	readOnly = "ro"
	shared   = "shared"
	private  = "private"
)

func access(options string) string {
	if slices.Contains(strings.Split(options, ","), readOnly) {
		return readOnly
	}
	return "rw"
}

// forbidden are what a mount keeps from programs on it: whoever opens /tmp for them does so for all who write there.
var forbidden = map[string]uintptr{"nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC, "nosymfollow": unix.MS_NOSYMFOLLOW}

// forbids lists what of it a mount's options have.
func forbids(options string) string {
	word := "forbids"
	for _, option := range strings.Split(options, ",") {
		if forbidden[option] != 0 {
			word += "," + option
		}
	}
	return word
}

// propagation says whether what is mounted below is seen in other namespaces.
func propagation(optional []string) string {
	if slices.ContainsFunc(optional, func(f string) bool { return strings.HasPrefix(f, shared+":") }) {
		return shared
	}
	return private
}

// remount gives mounts back how they were: open to writes and to programs or not, shared or not. What went is named.
func (c Cleaner) remount(before entries) error {
	now, err := c.mounts()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(keys(before)) {
		was, is := strings.Fields(before[name]), strings.Fields(now[name])
		if len(was) < 4 || len(is) < 5 || !sameMount(before[name], now[name]) {
			continue
		}
		point := mountPoint(name)
		at := c.Root.Path(point)
		if len(was) < 5 { // an older agent recorded no more
			was = append(was, is[4])
		}
		if was[2] != is[2] || was[4] != is[4] {
			flags := unix.MS_REMOUNT | unix.MS_BIND | kept(at)
			if was[2] == readOnly {
				flags |= unix.MS_RDONLY
			}
			for option, flag := range forbidden {
				if flags &^= flag; slices.Contains(strings.Split(was[4], ","), option) {
					flags |= flag
				}
			}
			errs = append(errs, setMount(point, at, flags))
		}
		if was[3] != is[3] {
			flags := uintptr(unix.MS_PRIVATE)
			if was[3] == shared {
				flags = unix.MS_SHARED
			}
			errs = append(errs, setMount(point, at, flags))
		}
	}
	return errors.Join(errs...)
}

func setMount(point, at string, flags uintptr) error {
	if err := unix.Mount("", at, "", flags, ""); err != nil {
		return fmt.Errorf("mount %s as it was: %w", point, err)
	}
	return nil
}

// kept are the other flags of a mount, which a remount would drop: they have the same numbers in both calls.
func kept(at string) uintptr {
	is := unix.Statfs_t{}
	if unix.Statfs(at, &is) != nil {
		return 0
	}
	return uintptr(is.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME)
}

// onTop separates a mount point from the number of a mount on top of another one.
const onTop = " ("

func mountPoint(name string) string {
	if at := strings.LastIndex(name, onTop); at > 0 && strings.HasSuffix(name, ")") {
		return name[:at]
	}
	return name
}

// unescape resolves the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// nodeMount says of a mount whether it is below a directory that a reset empties, or of a pod.
func nodeMount(name, _ string) bool {
	point := mountPoint(name)
	below := func(dir string) bool { return strings.HasPrefix(point, dir+"/") }
	ofPod := func(part string) bool { return strings.Contains(point, part) }
	return slices.ContainsFunc(directories, below) || slices.ContainsFunc(containerMounts, ofPod) || ofPodNamespace(point)
}

// ofPodNamespace says whether a path is the network namespace of a pod: a container runtime names those
// cni-<UUID>. Others there are the operator's.
func ofPodNamespace(path string) bool {
	return strings.HasPrefix(path, "/run/netns/cni-") || strings.HasPrefix(path, "/var/run/netns/cni-")
}

// mountsOfOthers are where the system, its users and other container engines mount as they like.
var mountsOfOthers = []string{
	"/run/user", "/run/credentials", "/run/systemd", "/run/snapd", "/run/docker", "/run/containers", "/run/lock", "/media", "/snap", "/var/snap",
	"/var/lib/docker", "/var/lib/containers", "/var/lib/machines", "/var/lib/lxc", "/var/lib/lxd", "/var/lib/libvirt", "/proc/sys/fs/binfmt_misc", "/tmp/systemd-private",
}

// ownMount says whether a mount that came is the machine's own. One below a directory of
// Kubernetes, or of a container of a pod, never is.
func ownMount(ch change, before, _ entries) bool {
	if ch.now == "" && expires(mountPoint(ch.name), before) {
		return true
	}
	if n := len(strings.Fields(ch.before)); n == 4 && strings.HasPrefix(ch.now, ch.before+" ") { // an older agent recorded no more
		return true
	} else if n == 2 {
		return strings.HasPrefix(ch.now, ch.before+" ") || ch.now == ""
	}
	if ch.now != "" && nodeMount(ch.name, ch.now) {
		return false
	}
	kind, _, _ := strings.Cut(ch.before+ch.now, " ")
	point := mountPoint(ch.name)
	// A disk that an operator has for etcd, but no directory of the host's; containers of other users of the same containerd.
	if slices.Contains(directories, point) && (ch.now == "" || strings.HasPrefix(ch.now, kind+" / ")) || strings.Contains(point, "/io.containerd.runtime.v2.task/") {
		return true
	}
	// What is compared there is not for others to cover.
	if p, ok := placeOf(point); ok && !p.only && !p.shallow && ch.now != "" {
		return false
	}
	return kind == "autofs" || slices.ContainsFunc(mountsOfOthers, func(dir string) bool { return point == dir || strings.HasPrefix(point, dir+"/") })
}

// expires says whether an automount that was there before mounts, and unmounts, at the point or above it.
func expires(point string, before entries) bool {
	for name, is := range before {
		if at := mountPoint(name); strings.HasPrefix(is, "autofs ") && (point == at || strings.HasPrefix(point, at+"/")) {
			return true
		}
	}
	return false
}

// kernelFileSystems hold no data of anybody.
var kernelFileSystems = []string{
	"bpf", "cgroup", "cgroup2", "nsfs", "proc", "sysfs", "tmpfs", "devtmpfs", "devpts", "mqueue", "debugfs", "tracefs", "securityfs", "overlay", "hugetlbfs", "fusectl", "configfs", "ramfs",
}

// removableMount says whether a reset may unmount: a disk or a share that somebody mounted
// elsewhere is named instead.
func removableMount(ch change) bool {
	if ch.before != "" {
		return true
	}
	kind, root, _ := strings.Cut(ch.now, " ")
	return nodeMount(ch.name, ch.now) || slices.Contains(kernelFileSystems, kind) || strings.HasPrefix(root, "/var/lib/kubelet/") || pluginPath(mountPoint(ch.name))
}

// unmount takes the deepest mounts first.
func (c Cleaner) unmount(names []string) error {
	var errs []error
	for _, name := range slices.Backward(slices.Sorted(slices.Values(names))) {
		point := mountPoint(name)
		err := unix.Unmount(c.Root.Path(point), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}

func (c Cleaner) heldVIP(state journal.State) (entries, error) {
	if state.VirtualIP == "" {
		return nil, nil
	}
	ip, err := netip.ParseAddr(state.VirtualIP)
	if err != nil {
		return nil, err
	}
	held, err := c.VIP.Held(ip)
	if !held {
		return nil, err
	}
	return entries{state.VirtualIP: "held"}, err
}

func (c Cleaner) changedLinks(state journal.State) (entries, error) {
	found := entries{}
	for _, name := range kubelet.ChangedLinks(c.Root, state.Programs) {
		found[name] = "changed"
	}
	return found, nil
}

func (c Cleaner) restoreLinks(state journal.State) error {
	return kubelet.RestoreLinks(c.Root, state.Programs)
}

// cgroupRoot is where the kernel shows control groups.
const cgroupRoot = "/sys/fs/cgroup"

// ofPods says of the name of a cgroup whether the kubelet, or a runtime for it, made it.
func ofPods(name string) bool {
	base := filepath.Base(name)
	return strings.HasPrefix(base, "kubepods") || strings.HasPrefix(base, "cri-containerd-") || strings.Contains(base, ":cri-containerd:") ||
		strings.HasPrefix(base, "crio-") || strings.HasPrefix(base, "kubelet.slice") || base == "kubelet-kubepods.slice"
}

// cgroups are those at the top of each hierarchy, but for those of systemd: its services, users and
// machines come and go.
func (c Cleaner) cgroups() (entries, error) {
	found := entries{}
	tops := []string{cgroupRoot}
	if _, err := os.Stat(c.Root.Path(cgroupRoot + "/cgroup.controllers")); err != nil {
		all, err := os.ReadDir(c.Root.Path(cgroupRoot))
		if errors.Is(err, fs.ErrNotExist) {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list cgroups: %w", err)
		}
		tops = nil
		for _, e := range all {
			if e.IsDir() { // a hierarchy; links are second names of one
				tops = append(tops, filepath.Join(cgroupRoot, e.Name()))
			}
		}
	}
	for _, top := range tops {
		all, err := os.ReadDir(c.Root.Path(top))
		if err != nil {
			return nil, fmt.Errorf("list cgroups: %w", err)
		}
		for _, e := range all {
			if e.IsDir() && (ofPods(e.Name()) || !ofSystemd(e.Name())) {
				found[filepath.Join(top, e.Name())] = "cgroup"
			}
		}
	}
	return found, nil
}

func ofSystemd(name string) bool {
	return slices.Contains([]string{".slice", ".service", ".scope", ".mount", ".socket", ".swap", ".device", ".timer"}, filepath.Ext(name))
}

// removeCgroups removes those without processes; those of pods with theirs.
func (c Cleaner) removeCgroups(_ context.Context, names []string) error {
	var errs []error
	for _, name := range names {
		top := c.Root.Path(name)
		if ofPods(name) {
			_ = os.WriteFile(filepath.Join(top, "cgroup.kill"), []byte("1"), 0) // older kernels have none: then kill has ended them
		}
		var below []string
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				below = append(below, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(below) {
			if gone := unix.Rmdir(dir); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, fmt.Errorf("remove cgroup %s: %w", dir, gone))
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// logDirectories hold what pods wrote. A reset of policy Full empties them.
var logDirectories = []string{"/var/log/pods", "/var/log/containers"}

// imageTrace is recorded of every host, and only of a reset of policy Full otherwise.
func (c Cleaner) imageTrace() trace {
	return trace{
		kind: kindImage, word: "container image", look: c.images,
		remove: func(ctx context.Context, names []string) error {
			_, err := c.ctr(ctx, append([]string{"images", "delete", "--sync"}, names...)...)
			return err
		},
	}
}

func (c Cleaner) images(ctx context.Context) (entries, error) {
	if !c.Runner.Has("ctr") {
		return nil, nil
	}
	out, err := c.ctr(ctx, "images", "list", "--quiet")
	if err != nil {
		return nil, fmt.Errorf("list the images of Kubernetes: %w", err)
	}
	found := entries{}
	for _, name := range strings.Fields(string(out)) {
		found[name] = "image"
	}
	return found, nil
}

// swaps are the files and disks that the machine swaps to, by name: kubeadm wants none, and bootstrap data switches
// them off.
func (c Cleaner) swaps() (entries, error) {
	data, err := c.Root.ReadFile("/proc/swaps")
	if errors.Is(err, fs.ErrNotExist) {
		return entries{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the swap space: %w", err)
	}
	found := entries{}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 5 && strings.HasPrefix(f[0], "/") {
			found[unescape(f[0])] = f[1]
		}
	}
	return found, nil
}

func (c Cleaner) swap(ctx context.Context, program string, names []string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, c.tool(ctx, program, name))
	}
	return errors.Join(errs...)
}

// tool runs a program of the system with a timeout.
func (c Cleaner) tool(ctx context.Context, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	_, err := c.Runner.Run(ctx, program, args...)
	return err
}

// modules are those of the kernel that are loaded; the value has what taints it: a module from elsewhere than
// the kernel's own package, as drivers are that pods bring.
func (c Cleaner) modules() (entries, error) {
	data, err := c.Root.ReadFile("/proc/modules")
	if errors.Is(err, fs.ErrNotExist) {
		return entries{}, nil // a kernel without modules
	}
	if err != nil {
		return nil, fmt.Errorf("list the modules of the kernel: %w", err)
	}
	found := entries{}
	for line := range strings.Lines(string(data)) {
		if name, _, ok := strings.Cut(line, " "); ok {
			taint, _ := c.Root.ReadFile("/sys/module/" + name + "/taint")
			found[name] = "taint=" + strings.TrimSpace(string(taint))
		}
	}
	return found, nil
}

// ownModule says whether a module is the kernel's own, which whoever uses the network or a disk has it load, or
// one that somebody took away.
func ownModule(ch change, _, _ entries) bool {
	return ch.now == "" || ch.before != "" || ch.now == "taint="
}

func (c Cleaner) removeModules(_ context.Context, names []string) error {
	if c.Root != "" {
		return nil // those of a pretended host are none of this machine
	}
	var errs []error
	for _, name := range names {
		if err := unix.DeleteModule(name, unix.O_NONBLOCK); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("remove the kernel module %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
