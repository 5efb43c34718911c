package reset

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/durable"
)

// directories hold files of Kubernetes only. Their files go. So do they, unless they were
// there before a bootstrap: packages of the distribution make some.
var directories = []string{
	"/etc/kubernetes", "/var/lib/kubelet", "/var/lib/etcd", "/var/lib/cni", "/run/kubeadm", "/run/cluster-api", "/run/flannel",
}

// cniConfigs is shared with the host's own plugins: the record tells which
// files were there before.
const cniConfigs = "/etc/cni/net.d"

// foreignCNIConfigs are the names of network configurations that other programs than
// Kubernetes' network plugins leave beside those.
var foreignCNIConfigs = []string{"*podman*", "*nerdctl*", "*crio*", "*loopback*"}

// place is a directory, or a file, all of which is recorded.
type place struct {
	path string
	// plugin: what came goes, whoever made it. Of other places, a reset takes back what changed
	// while the bootstrap ran, and what changed later is named.
	plugin bool
	// added: only what came counts, and contents are not read. Clusters bring builds of their own of
	// network plugins, and a plugin that the operator runs, too, writes to its own files.
	added bool
	// sized: of its files the sizes and times count, as they are large and many.
	sized bool
	// only the directory itself, or with its entries.
	only, shallow bool
}

// places by who writes there.
var places = slices.Concat(
	// The kubelet runs FlexVolume drivers once it finds them; it makes the directories.
	[]place{{path: "/usr/libexec/kubernetes", plugin: true}},
	// containerd runs plugins of its Node Resource Interface when it starts.
	[]place{{path: "/opt/nri", plugin: true}, {path: "/etc/nri", plugin: true}},
	// It runs network plugins for each pod.
	[]place{{path: "/opt/cni", plugin: true, added: true}, {path: "/etc/cni", plugin: true}},
	pluginPlaces,
	// Data of pods and of storage is made beside what the distribution has.
	[]place{{path: "/opt", shallow: true, added: true}, {path: "/srv", shallow: true, added: true}, {path: "/var/lib", shallow: true, added: true}},
	// What plugins write into directories of the system: Cilium has the filter of source addresses off.
	[]place{{path: "/etc/sysctl.d/99-zzz-override_cilium.conf", plugin: true}, {path: "/etc/openvswitch", plugin: true}, {path: "/etc/ovn", plugin: true}, {path: "/etc/calico", plugin: true}},
	// What the system starts, and what it trusts.
	[]place{
		{path: "/usr/lib/systemd"}, {path: "/usr/lib/udev"}, {path: "/usr/lib/sysctl.d"}, {path: "/usr/lib/modules-load.d"}, {path: "/usr/lib/modprobe.d"},
		{path: "/usr/lib/tmpfiles.d"}, {path: "/usr/lib/sysusers.d"}, {path: "/usr/lib/environment.d"}, {path: "/usr/lib/NetworkManager"},
		{path: "/usr/share/ca-certificates"}, {path: "/usr/share/pki"}, {path: "/usr/bin", sized: true}, {path: "/usr/sbin", sized: true},
	},
	// What the system, its services and its users read.
	[]place{{path: "/etc"}, {path: "/usr/local"}, {path: "/run/systemd/system"}, {path: "/run/udev/rules.d"}, {path: "/var/spool/cron"}},
	[]place{{path: "/root/.profile"}, {path: "/root/.bashrc"}, {path: "/root/.bash_profile"}, {path: "/root/.kube"}, {path: "/root/.docker"}, {path: "/root/.config/systemd"}},
	onlyDirectories(),
)

func onlyDirectories() (all []place) {
	for _, dir := range directories {
		all = append(all, place{path: dir, plugin: true, added: true, only: true})
	}
	return all
}

// pluginPlaces are where plugins of networks keep state, credentials and sockets.
var pluginPlaces = func() (all []place) {
	for _, dir := range []string{
		"/run/calico", "/var/lib/calico", "/var/log/calico", "/run/cilium", "/var/lib/cilium", "/run/multus", "/var/lib/multus",
		"/run/antrea", "/var/lib/antrea", "/var/log/antrea", "/run/openvswitch", "/var/lib/openvswitch", "/var/log/openvswitch",
		"/run/ovn", "/var/lib/ovn", "/var/log/ovn", "/run/ovn-kubernetes", "/var/log/ovn-kubernetes", "/var/lib/ovn-ic",
		"/var/lib/weave", "/run/weave", "/var/lib/kube-router", "/var/lib/kube-proxy", "/run/nodelocaldns", "/run/nodeagent", "/run/istio-cni", "/run/aws-node", "/run/netns", "/sys/fs/bpf",
	} {
		all = append(all, place{path: dir, plugin: true, added: true})
	}
	return all
}()

// pluginPath says whether a path is at or below a place of plugins.
func pluginPath(name string) bool {
	p, ok := placeOf(name)
	return ok && p.plugin
}

// placesByPath are the places by their paths.
var placesByPath = func() map[string]place {
	all := map[string]place{}
	for _, p := range places {
		all[p.path] = p
	}
	return all
}()

// placeOf returns the innermost place that a path belongs to.
func placeOf(name string) (place, bool) {
	for dir := name; dir != "/" && dir != "."; dir = path.Dir(dir) {
		if p, ok := placesByPath[dir]; ok {
			return p, true
		}
	}
	return place{}, false
}

// unrecorded are paths below the places that are not looked at, as path.Match has them, with what is
// below them.
var unrecorded = []string{
	// Who may log in is compared account by account: see the package logins.
	"/etc/passwd*", "/etc/shadow*", "/etc/group*", "/etc/gshadow*", "/etc/subuid*", "/etc/subgid*", "/etc/sudoers", "/etc/sudoers.d", "/etc/.pwd.lock",
	"/root/.ssh",
	// The store of the software that the agent installs, and its records.
	"/opt/slipway", "/var/lib/slipway*",
	// What the system writes by itself: clocks, caches, and what is made of other files that are looked at.
	"/etc/mtab", "/etc/.resolv.conf*", "/etc/ld.so.cache*", "/etc/adjtime", "/etc/.updated", "/etc/blkid*", "/etc/udev/hwdb.bin", "/usr/lib/udev/hwdb.bin",
	"/etc/aliases.db", "/etc/lvm/archive", "/etc/lvm/backup", "/etc/lvm/cache",
	"/etc/cups", "/etc/printcap", "/etc/network/run", "/etc/fwupd/remotes.d",
	// What a package manager leaves beside the files of a package.
	"*.dpkg-new", "*.dpkg-old", "*.dpkg-dist", "*.dpkg-bak", "*.dpkg-tmp", "*.ucf-new", "*.ucf-old", "*.ucf-dist", "*.rpmnew", "*.rpmsave", "*.rpmorig",
	// Locks, whoever holds them.
	"/run/xtables.lock",
}

// unrecordedNames are those without a wildcard, unrecordedPatterns the others by their last directory, or
// by none for one that matches anywhere.
var unrecordedNames, unrecordedPatterns = func() (map[string]bool, map[string][]string) {
	names, patterns := map[string]bool{}, map[string][]string{}
	for _, p := range unrecorded {
		switch dir := path.Dir(p); {
		case !strings.ContainsAny(p, "*?"), strings.HasPrefix(p, "*."): // an extension
			names[p] = true
		case !strings.HasPrefix(p, "/") || strings.ContainsAny(dir, "*?"):
			patterns[""] = append(patterns[""], p)
		default:
			patterns[dir] = append(patterns[dir], p)
		}
	}
	return names, patterns
}()

func isUnrecorded(name string) bool {
	dir := path.Dir(name)
	if unrecordedNames[name] || unrecordedNames["*"+path.Ext(name)] || slices.Contains(directories, dir) {
		return true
	}
	for _, of := range []string{dir, ""} {
		for _, p := range unrecordedPatterns[of] {
			against := name
			if !strings.HasPrefix(p, "/") {
				against = path.Base(name)
			}
			if ok, _ := path.Match(p, against); ok {
				return true
			}
		}
	}
	return false
}

const (
	// maxDigested is up to which size in bytes the content of a file is read; a larger one is known by its size
	// and time.
	maxDigested = 32 << 20
	// maxContent and maxContents bound the contents that are kept in a record: of one file, and of
	// all.
	maxContent  = 32 << 10
	maxContents = 2 << 20
)

// files lists what is in the places.
func (c Cleaner) files() (entries, error) {
	found := entries{}
	var errs []error
	for _, p := range places {
		if err := c.walk(p, found); err != nil {
			errs = append(errs, fmt.Errorf("look at %s: %w", p.path, err))
		}
	}
	return found, errors.Join(errs...)
}

// elsewhere is the prefix of the fingerprint of a place that a symbolic link leads to.
const elsewhere = "at "

// resolve returns where a path of the host and its root are, without symbolic links; at is empty when there
// is nothing at the path.
func (c Cleaner) resolve(path string) (at, top string, err error) {
	at, err = filepath.EvalSymlinks(c.Root.Path(path))
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	top, err = filepath.EvalSymlinks(c.Root.Path("/"))
	return at, top, err
}

func (c Cleaner) walk(p place, found entries) error {
	at, top, err := c.resolve(p.path)
	if err != nil || at == "" {
		return err
	}
	moved := ""
	if at != filepath.Join(top, p.path) {
		moved = elsewhere + "/" + strings.TrimPrefix(strings.TrimPrefix(at, top), "/")
	}
	return filepath.WalkDir(at, func(file string, d fs.DirEntry, err error) error {
		rest := strings.TrimPrefix(file, at)
		name := p.path + rest
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went meanwhile
		}
		if err != nil {
			return err
		}
		inner, _ := placeOf(name)
		if rest != "" && (isUnrecorded(name) || inner.path != p.path) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		is, err := describeAs(file, d, p)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if rest == "" && moved != "" {
			is = moved
		}
		found[name] = is
		if d.IsDir() && (p.only || p.shallow && rest != "") {
			return fs.SkipDir
		}
		return nil
	})
}

// describe tells two entries apart: by mode, owner, content and attributes. added leaves out what has to be
// read.
func describe(file string, d fs.DirEntry, added bool) (string, error) {
	return describeAs(file, d, place{added: added})
}

func describeAs(file string, d fs.DirEntry, p place) (string, error) {
	is, fd := unix.Stat_t{}, -1
	if !p.added && (d.IsDir() || d.Type().IsRegular()) {
		// An os.File takes twice as long, and so does to find it by name once more; there are many files.
		var err error
		fd, err = unix.Open(file, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			defer func() { _ = unix.Close(fd) }()
			err = unix.Fstat(fd, &is)
		}
		if err != nil {
			return "", &fs.PathError{Op: "open", Path: file, Err: err}
		}
	} else if err := unix.Lstat(file, &is); err != nil {
		return "", &fs.PathError{Op: "lstat", Path: file, Err: err}
	}
	mode := modeOf(is.Mode)
	who := fmt.Sprintf("%o %d:%d", mode&^fs.ModeType, is.Uid, is.Gid)
	switch {
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(file)
		return "link " + target, err
	case !mode.IsDir() && !mode.IsRegular():
		return mode.Type().String() + " " + who, nil
	case fd < 0 && mode.IsDir():
		return "dir " + who, nil
	case fd < 0:
		return "file " + who, nil
	}
	attributes, err := attributesOf(fd)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	switch {
	case mode.IsDir():
		return "dir " + who + " " + attributes, nil
	case is.Size > maxDigested || p.sized:
		// Whoever changes it can set the one time back, but not the other.
		return fmt.Sprintf("file %s %d bytes of %d %d %s", who, is.Size, is.Mtim.Nano(), is.Ctim.Nano(), attributes), nil
	}
	sum, err := digestOf(fd, int(is.Size))
	if err != nil {
		return "", &fs.PathError{Op: "read", Path: file, Err: err}
	}
	return "file " + who + " " + sum + " " + attributes, nil
}

// modeOf is a mode of the kernel as package fs has it.
func modeOf(mode uint32) fs.FileMode {
	is := fs.FileMode(mode & 0o777)
	if mode&unix.S_ISUID != 0 {
		is |= fs.ModeSetuid
	}
	if mode&unix.S_ISGID != 0 {
		is |= fs.ModeSetgid
	}
	if mode&unix.S_ISVTX != 0 {
		is |= fs.ModeSticky
	}
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return is
	case unix.S_IFDIR:
		return is | fs.ModeDir
	case unix.S_IFLNK:
		return is | fs.ModeSymlink
	case unix.S_IFIFO:
		return is | fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return is | fs.ModeSocket
	case unix.S_IFBLK:
		return is | fs.ModeDevice
	case unix.S_IFCHR:
		return is | fs.ModeDevice | fs.ModeCharDevice
	}
	return is | fs.ModeIrregular
}

// plain is a file or directory without attributes.
const plain = "-"

// attributesOf puts the attributes of a file into a word.
func attributesOf(fd int) (string, error) {
	a, err := durable.AttributesOf(fd)
	if err != nil || !a.Immutable && !a.AppendOnly && len(a.Extended) == 0 {
		return plain, err
	}
	is, err := json.Marshal(a)
	if len(is) > maxAttributes {
		sum := sha256.Sum256(is)
		is = sum[:]
	}
	return "+" + base64.RawURLEncoding.EncodeToString(is), err
}

// maxAttributes bounds attributes that can be restored, in bytes; more are compared only.
const maxAttributes = 1 << 10

// sameFile compares two fingerprints; before may be that of an agent that recorded less.
func sameFile(before, now string) bool {
	b, n := strings.Fields(before), strings.Fields(now)
	return before == now || len(b) >= 3 && (b[0] == "file" || b[0] == "dir") && len(n) > len(b) && slices.Equal(b, n[:len(b)])
}

// contentOf is the digest in the fingerprint of a file that was read.
func contentOf(is string) (string, bool) {
	f := strings.Fields(is)
	if len(f) < 4 || len(f) > 5 || f[0] != "file" {
		return "", false
	}
	return f[3], true
}

// buffers are for reading files, of which there are many.
var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// digestOf reads a file of that size, up to maxDigested.
func digestOf(fd, size int) (string, error) {
	buffer := buffers.Get().(*[64 << 10]byte) //nolint:forcetypeassert // it has no others
	defer buffers.Put(buffer)
	sum, read := sha256.New(), 0
	for read < maxDigested {
		n, err := unix.Read(fd, buffer[:min(len(buffer), maxDigested-read)])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, _ = sum.Write(buffer[:n])
		if read += n; n == 0 || read == size {
			break // what is written from now on, the next look sees
		}
	}
	return base64.RawStdEncoding.EncodeToString(sum.Sum(nil)[:12]), nil
}

// candidate is a file whose content may be kept. Those of network plugins come first, and those of /etc before others.
type candidate struct {
	rank int
	name string
}

func rankOf(name string) int {
	switch p, _ := placeOf(name); {
	case p.plugin:
		return 0
	case p.path == "/etc":
		return 1
	default:
		return 2
	}
}

// contents keeps what can be put back: small files that everybody may read. Those that the agent
// itself replaces are kept whatever they are: see Keep.
func (c Cleaner) contents(files entries) (map[string][]byte, error) {
	var candidates []candidate
	for name, is := range files {
		if _, read := contentOf(is); !read || strings.HasPrefix(name, "/usr/lib/") || below(trustMade, name) || below(trustSources, name) {
			continue // a package has those of /usr, and certificates are made of others
		}
		if mode, _, _ := strings.Cut(strings.TrimPrefix(is, "file "), " "); len(mode) >= 3 && mode[len(mode)-1] >= '4' {
			candidates = append(candidates, candidate{rankOf(name), name})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(a.name, b.name)) })
	all, size := map[string][]byte{}, 0
	for _, k := range candidates {
		if size > maxContents-maxContent {
			break // others are compared, and named when they are not what they were
		}
		info, err := os.Lstat(c.Root.Path(k.name))
		if err != nil || info.Size() > maxContent {
			continue
		}
		var content []byte
		err = durable.WithParent(string(c.Root), k.name, func(d *durable.Dir, file string) (err error) {
			content, _, err = d.ReadFile(file, maxContent)
			return err
		})
		if err != nil {
			return nil, err
		}
		all[k.name], size = content, size+len(content)
	}
	return all, nil
}

// fileTrace is that of the places.
func (c Cleaner) fileTrace(ctx context.Context, state journal.State, rec *record) trace {
	var before entries
	if rec != nil {
		before = rec.Traces[kindFile]
	}
	written := map[string]bool{}
	for _, name := range append(writtenPaths(state), keptPaths(state)...) {
		written[name] = true
	}
	var packages packageFiles
	var software installed
	return trace{
		kind: kindFile, word: "file", gone: true, look: func(context.Context) (entries, error) { return c.files() },
		adopted: func(name, _ string, _ []netip.Prefix) bool { return ofAdopted(name) },
		own: func(ch change, _, _ entries) bool {
			p, _ := placeOf(ch.name)
			switch {
			case written[ch.name]:
				return true // it has a trace of its own
			case ch.before != "" && sameFile(ch.before, ch.now):
				return true
			case ofAgent(ch.name):
				// The operator changes it, and an update; what a bootstrap changes it is no word of theirs.
				made, known := state.Made[ch.name]
				return state.Made != nil && (!known || !sameFile(made, ch.now))
			case programOf(state, ch.name), software.own(c, ch):
				return true
			case p.added && ch.before != "" && !strings.HasPrefix(ch.before, elsewhere) && !strings.HasPrefix(ch.now, elsewhere):
				return true
			case p.plugin:
				return false
			}
			return packages.own(ctx, c, ch)
		},
		inside: func(name string, came func(string) bool) bool { return came(path.Dir(name)) },
		mine:   func(ch change) bool { return rec.puttableBack(state, ch) },
		say: func(ch change) string {
			word := "file"
			if strings.HasPrefix(ch.now, "dir ") {
				word = "directory"
			}
			return trace{word: word}.words(ch)
		},
		remove:  func(ctx context.Context, names []string) error { return c.removeFiles(ctx, names, before) },
		restore: func(ctx context.Context, was entries) error { return c.restoreFiles(ctx, was, rec) },
	}
}

// ofAdopted says whether a file of a host with a running node is the node's: state of network plugins, and
// their configurations but those of other container engines.
func ofAdopted(name string) bool {
	if rest, ok := strings.CutPrefix(name, cniConfigs+"/"); ok {
		first, _, _ := strings.Cut(rest, "/")
		return !slices.ContainsFunc(foreignCNIConfigs, func(p string) bool { ok, _ := path.Match(p, first); return ok })
	}
	return ofPluginAlone(name) || ofPodNamespace(name) || below(adoptedPlaces, name)
}

// adoptedPlaces are those of plugins in directories that an operator uses, too.
var adoptedPlaces = []string{"/sys/fs/bpf/calico", "/sys/fs/bpf/cilium", "/sys/fs/bpf/tc/globals", "/etc/calico", "/etc/cni/multus", "/etc/sysctl.d/99-zzz-override_cilium.conf"}

// ofPluginAlone says whether a path is at or below a place that no operator uses.
func ofPluginAlone(name string) bool {
	p, ok := placeOf(name)
	return ok && !slices.Contains(sharedPlaces, p.path) && slices.ContainsFunc(pluginPlaces, func(of place) bool { return of.path == p.path })
}

// sharedPlaces are those in which an operator keeps things, too.
var sharedPlaces = []string{"/run/netns", "/sys/fs/bpf"}

// puttableBack says whether a reset may remove a file that came, or write one that changed.
func (r *record) puttableBack(state journal.State, ch change) bool {
	p, _ := placeOf(ch.name)
	_, kept := r.content(ch)
	switch {
	case p.plugin:
		return ch.before == "" || kept
	case ch.before == "" && strings.HasPrefix(ch.now, "dir ") && !p.shallow:
		return true // goes only when it is empty
	default:
		made, known := state.Made[ch.name]
		return known && sameFile(made, ch.now) && (ch.before == "" || kept)
	}
}

// content returns what a file was, for one that changed or went. A link or a directory is all
// in its fingerprint, and so is a file that has changed only its mode or owner.
func (r *record) content(ch change) ([]byte, bool) {
	if r == nil || ch.before == "" {
		return nil, false
	}
	if !strings.HasPrefix(ch.before, "file ") {
		return nil, true
	}
	content, ok := r.Contents[ch.name]
	was, read := contentOf(ch.before)
	is, _ := contentOf(ch.now)
	return content, ok || read && was == is
}

// removeFiles takes away what came; what is in a directory before it. One at which something is
// mounted, or that a link leads to which was not there before, stays, and is named.
func (c Cleaner) removeFiles(ctx context.Context, names []string, before entries) error {
	mounted, err := c.mounts()
	if err != nil {
		return err
	}
	var errs []error
	now, gone := map[string]string{}, entries{}
	for _, name := range slices.Backward(slices.Sorted(slices.Values(names))) {
		p, _ := placeOf(name)
		if point := mountOf(name, p.path, mounted); point != "" {
			errs = append(errs, fmt.Errorf("%s: something is mounted at %s", name, point))
			continue
		}
		if _, looked := now[p.path]; !looked {
			here := entries{}
			errs = append(errs, c.walk(place{path: p.path, only: true, added: true}, here))
			now[p.path] = here[p.path]
		}
		if strings.HasPrefix(now[p.path], elsewhere) && now[p.path] != before[p.path] {
			errs = append(errs, fmt.Errorf("%s: %s is reached by a symbolic link", name, p.path))
			continue
		}
		c.stopUnit(ctx, name)
		gone[name] = "gone"
		err := durable.RemoveIn(string(c.Root), name)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			errs = append(errs, err)
		}
	}
	c.restartReaders(ctx, gone)
	return errors.Join(errs...)
}

// mountOf is the mount point in a place at or above a path; empty for none.
func mountOf(name, place string, mounted entries) string {
	for dir := name; len(dir) > len(place); dir = path.Dir(dir) {
		if mounted[dir] != "" {
			return dir
		}
	}
	return ""
}

// restoreFiles gives files the content, mode and owner that they had.
func (c Cleaner) restoreFiles(ctx context.Context, was entries, rec *record) error {
	var errs []error
	for _, name := range slices.Sorted(keys(was)) {
		content, _ := rec.content(change{name: name, before: was[name]})
		err := c.restoreFile(name, was[name], content)
		if err != nil {
			errs = append(errs, fmt.Errorf("restore %s: %w", name, err))
		}
	}
	c.restartReaders(ctx, was)
	return errors.Join(errs...)
}

// restoreFile makes a path what its fingerprint says. nil leaves the content of a file.
func (c Cleaner) restoreFile(path, was string, content []byte) error {
	return durable.WithParent(string(c.Root), path, func(d *durable.Dir, name string) error {
		if target, ok := strings.CutPrefix(was, "link "); ok {
			return d.Link(target, name)
		}
		f := strings.Fields(was)
		var bits uint32
		var uid, gid int
		if len(f) < 3 {
			return fmt.Errorf("not known: %s", was)
		}
		if _, err := fmt.Sscanf(f[1]+" "+f[2], "%o %d:%d", &bits, &uid, &gid); err != nil {
			return err
		}
		mode := fs.FileMode(bits)
		var err error
		if _, missing := d.Lstat(name); f[0] == "dir" && errors.Is(missing, fs.ErrNotExist) {
			err = d.Mkdir(name, mode, uid, gid)
		} else if f[0] != "dir" && content != nil {
			err = d.Replace(name, content, mode, uid, gid)
		} else {
			err = d.SetOwner(name, mode, uid, gid)
		}
		if last := f[len(f)-1]; err == nil && (last == plain || strings.HasPrefix(last, "+")) {
			err = restoreAttributes(d, name, last)
		}
		return err
	})
}

func restoreAttributes(d *durable.Dir, name, was string) error {
	a := durable.Attributes{}
	if was != plain {
		is, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(was, "+"))
		if err == nil {
			err = json.Unmarshal(is, &a)
		}
		if err != nil {
			return errors.New("its attributes were too many to keep")
		}
	}
	return d.SetAttributes(name, a)
}

// ownFiles are those of the directories of Kubernetes. One of each directory is named: any is one too
// many. A step of the reset empties them.
func (c Cleaner) ownFiles() trace {
	return trace{kind: "Kubernetes", word: "file", always: true, look: func(context.Context) (entries, error) { return c.firstFiles(directories) }}
}

// emptyDirectories empties those of Kubernetes, but for one that a link leads away to which was not there
// before: to empty what that leads to could be to empty anything.
func (c Cleaner) emptyDirectories(rec *record) error {
	var errs []error
	for _, dir := range directories {
		now := entries{}
		if err := c.walk(place{path: dir, only: true, added: true}, now); err != nil {
			errs = append(errs, err)
			continue
		}
		if before := rec.of(trace{kind: kindFile}); before != nil && strings.HasPrefix(now[dir], elsewhere) && before[dir] != now[dir] {
			errs = append(errs, fmt.Errorf("%s is reached by a symbolic link that was not there before", dir))
			continue
		}
		errs = append(errs, c.emptyDirectory(dir))
	}
	return errors.Join(errs...)
}

// emptyDirectory empties a directory, but for what is still mounted in it: that may be a share of others.
func (c Cleaner) emptyDirectory(dir string) error {
	found, err := c.mounts()
	if err != nil {
		return err
	}
	points := make([]string, 0, len(found))
	for name := range found {
		points = append(points, c.Root.Path(mountPoint(name)))
	}
	return c.withDir(dir, func(d *durable.Dir) error { return emptyAround(d, points) })
}

// withDir calls do with a directory that is there.
func (c Cleaner) withDir(dir string, do func(*durable.Dir) error) error {
	err := durable.WithDir(string(c.Root), dir, do)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func emptyAround(d *durable.Dir, points []string) error {
	found, err := d.Entries()
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range found {
		file := d.Path(e.Name())
		switch {
		case slices.Contains(points, file):
			errs = append(errs, fmt.Errorf("empty %s: %s is mounted", d.Path(""), e.Name()))
		case slices.ContainsFunc(points, func(p string) bool { return strings.HasPrefix(p, file+"/") }):
			errs = append(errs, d.WithDir(e.Name(), func(in *durable.Dir) error { return emptyAround(in, points) }))
		default:
			errs = append(errs, d.RemoveAll(e.Name()))
		}
	}
	return errors.Join(errs...)
}

// firstFiles names one file per directory.
func (c Cleaner) firstFiles(directories []string) (entries, error) {
	found := entries{}
	for _, dir := range directories {
		file := ""
		err := c.withDir(dir, func(d *durable.Dir) (err error) { // an operator may have it on another disk
			file, err = firstFile(d.Path(""))
			return err
		})
		if err != nil {
			return nil, err
		}
		if file != "" {
			found[filepath.Join(dir, file)] = "there"
		}
	}
	return found, nil
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

func (c Cleaner) empty(directories []string) error {
	errs := make([]error, 0, len(directories))
	for _, dir := range directories {
		errs = append(errs, c.removeContents(dir))
	}
	return errors.Join(errs...)
}

// removeContents empties a directory, with what is mounted in it: see emptyDirectory.
func (c Cleaner) removeContents(dir string) error {
	return c.withDir(dir, func(d *durable.Dir) error { return emptyAround(d, nil) })
}
