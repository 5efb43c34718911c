package reset_test

import (
	"crypto/md5" //nolint:gosec // what dpkg has of each file
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/effects/reset"
	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/test/fakehost"
)

func sum(content string) string {
	is := md5.Sum([]byte(content)) //nolint:gosec // as above
	return hex.EncodeToString(is[:])
}

// linkOfRoot makes a link, as packages have them. One of another user is a change by its owner.
func linkOfRoot(t *testing.T, h *fakehost.Host, name, target string) {
	t.Helper()
	if os.Getuid() != 0 {
		rights.Skip(t, "needs root, whose the links of packages are")
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(h.Root.Path(name)), 0o755), os.Symlink(target, h.Root.Path(name))); err != nil {
		t.Fatal(err)
	}
}

// leftOf verifies a host against a baseline.
func leftOf(t *testing.T, h *fakehost.Host, baseline *journal.Baseline) []string {
	t.Helper()
	left, err := h.Executor.Verify(t.Context(), journal.State{Baseline: baseline})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// TestNothingIsRemovedBelowAMount: what is mounted in a directory of a plugin and cannot be unmounted is not emptied: it may be the
// control groups of all processes.
func TestNothingIsRemovedBelowAMount(t *testing.T) {
	h := fakehost.New(t)
	baseline := recorded(t, h)
	put(t, h, "/run/calico/cgroup/system.slice/own", "")
	put(t, h, "/run/calico/nodename", "")
	put(t, h, "/proc/self/mountinfo", "102 50 0:5 / /run/calico/cgroup rw - cgroup2 none rw\n")
	err := h.Executor.Cleaner.Reset(t.Context(), &progress{state: journal.State{Baseline: baseline, Residue: journal.ResidueFiles}})
	if err != nil {
		t.Error(err)
	}
	for path, stays := range map[string]bool{"/run/calico/cgroup/system.slice/own": true, "/run/calico/nodename": false} {
		if _, err := os.Lstat(h.Root.Path(path)); (err == nil) != stays {
			t.Errorf("%s is there: %t", path, !stays)
		}
	}
	if left := leftOf(t, h, baseline); !slices.Equal(left, []string{"mount /run/calico/cgroup", "directory /run/calico"}) {
		t.Errorf("left is %q", left)
	}
}

// TestNothingIsRemovedBehindANewMount: a directory of the host's that a bootstrap mounted elsewhere is not taken for what came there, nor what it
// covers for gone: the mount is named. One that was mounted before is a place as others are.
func TestNothingIsRemovedBehindANewMount(t *testing.T) {
	h := fakehost.New(t)
	const before = "101 50 8:2 / /srv rw - ext4 /dev/sdb rw\n"
	put(t, h, "/proc/self/mountinfo", before)
	for _, path := range []string{"/opt/own", "/etc/cni/own", "/run/systemd/system/own"} {
		h.Put(t, path, "")
		if err := os.Chmod(h.Root.Path(path), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mkdir(t, h, "/srv", "/var/lib/docker/containers")
	p := &progress{state: journal.State{Baseline: recorded(t, h), Residue: journal.ResidueFiles}}
	// As it looks: /etc at /opt, and nothing to be seen of what is below.
	stays := map[string]bool{
		"/opt/passwd": true, "/etc/cni/theirs": true, "/run/systemd/system/theirs": true, "/var/lib/docker/containers/theirs": true, "/srv/theirs": false,
		"/opt/own": false, "/etc/cni/own": false, "/run/systemd/system/own": false,
	}
	for path := range stays {
		if strings.HasSuffix(path, "/own") {
			if err := os.Remove(h.Root.Path(path)); err != nil {
				t.Fatal(err)
			}
		} else {
			h.Put(t, path, "")
		}
	}
	mounts, points := before, []string{"/opt", "/etc/cni", "/run/systemd/system", "/var/lib/etcd", "/var/lib/docker/containers"}
	for n, point := range points {
		mounts += fmt.Sprintf("%d 50 8:1 /etc %s rw - ext4 /dev/sda rw\n", 102+n, point)
	}
	put(t, h, "/proc/self/mountinfo", mounts)
	if err := h.Executor.Cleaner.RecordMade(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := h.Executor.Cleaner.Reset(t.Context(), p); err == nil || !strings.Contains(err.Error(), "/var/lib/docker/containers/theirs: something is mounted at /var/lib/docker/containers") {
		t.Errorf("reset: %v", err)
	}
	for path, stays := range stays {
		if _, err := os.Lstat(h.Root.Path(path)); (err == nil) != stays {
			t.Errorf("%s is there: %t", path, !stays)
		}
	}
	left, want := leftOf(t, h, p.state.Baseline), []string{"file /var/lib/docker/containers/theirs", "mount /etc/cni", "mount /opt", "mount /run/systemd/system", "mount /var/lib/etcd"}
	if slices.Sort(left); !slices.Equal(left, want) { // the container engine mounts there as it likes
		t.Errorf("left is %q, want %q", left, want)
	}
}

// TestAddressThatAnotherMachineHas: an address of the operator's that went is restored, unless a program has moved it to another machine: two
// would have it.
func TestAddressThatAnotherMachineHas(t *testing.T) {
	for neighbour, want := range map[string][]string{"": {"10.0.0.9/32 on eth0"}, "02:00:00:00:00:09": {}} {
		h := fakehost.New(t)
		h.Network.AddLink(network.Link{Name: "eth0", Kind: "device"})
		h.Network.Put(network.IPAddresses, "10.0.0.9/32 on eth0", "permanent broadcast= scope=0 flags=0 label=eth0")
		p := &progress{state: journal.State{Baseline: recorded(t, h), Residue: journal.ResidueFiles}}
		if err := h.Network.RemoveEntries(network.IPAddresses, []string{"10.0.0.9/32 on eth0"}); err != nil {
			t.Fatal(err)
		}
		h.Network.Neighbour = neighbour
		if err := h.Executor.Cleaner.Reset(t.Context(), p); err != nil {
			t.Error(err)
		}
		if is := h.Network.Names(network.IPAddresses); !slices.Equal(is, want) {
			t.Errorf("with neighbour %q the addresses are %q, want %q", neighbour, is, want)
		}
		if left := leftOf(t, h, p.state.Baseline); len(left) > 0 {
			t.Errorf("left is %q", left)
		}
	}
}

// TestDeepDirectories: directories below which nobody can name anything are named by the first one, and removed from the directories of plugins and
// of Kubernetes.
func TestDeepDirectories(t *testing.T) {
	h := fakehost.New(t)
	mkdir(t, h, "/etc/cni", "/etc/kubernetes")
	baseline := recorded(t, h)
	deep := func(at string) {
		t.Helper()
		dir, err := os.OpenRoot(h.Root.Path(at))
		if err != nil {
			t.Fatal(err)
		}
		part := strings.Repeat("d", 250)
		for range 20 {
			below, err := dir.OpenRoot(".")
			if err == nil {
				err = below.Mkdir(part, 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
			next, err := below.OpenRoot(part)
			if err = errors.Join(err, below.Close(), dir.Close()); err != nil {
				t.Fatal(err)
			}
			dir = next
		}
		if err := errors.Join(dir.WriteFile("file", nil, 0o644), dir.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []string{"/etc/cni", "/etc/kubernetes", "/etc/own"} {
		mkdir(t, h, at)
		deep(at)
	}
	t.Cleanup(func() { // the test's own directory is removed by path
		if dir, err := os.OpenRoot(h.Root.Path("/etc")); err == nil {
			_ = errors.Join(dir.RemoveAll("own"), dir.RemoveAll("cni"), dir.RemoveAll("kubernetes"), dir.Close())
		}
	})
	for _, l := range leftOf(t, h, baseline) {
		if len(l) > 400 {
			t.Errorf("a leftover has %d bytes: %.100s", len(l), l)
		}
	}
	if err := h.Executor.Cleaner.Reset(t.Context(), &progress{state: journal.State{Baseline: baseline, Residue: journal.ResidueFiles}}); err != nil {
		t.Errorf("reset: %.300v", err)
	}
	if found := leftOf(t, h, baseline); !slices.Equal(found, []string{"directory /etc/own"}) {
		t.Errorf("leftovers are %.500q", found)
	}
}

// TestUpgradeOfAPackage: a file that has just the content that its package brings is the package's doing.
func TestUpgradeOfAPackage(t *testing.T) {
	const conf, program, link, unit = "/etc/own.conf", "/usr/local/bin/own", "/etc/alternatives/own", "/etc/systemd/system/multi-user.target.wants/own.service"
	for name, c := range map[string]struct {
		change func(*testing.T, *fakehost.Host)
		left   []string
	}{
		"configuration":            {func(t *testing.T, h *fakehost.Host) { put(t, h, conf, "new") }, nil},
		"configuration, edited":    {func(t *testing.T, h *fakehost.Host) { put(t, h, conf, "new, edited") }, []string{"file " + conf + ", which is not what it was before"}},
		"program":                  {func(t *testing.T, h *fakehost.Host) { put(t, h, program, "new") }, nil},
		"program of somebody else": {func(t *testing.T, h *fakehost.Host) { put(t, h, program, "evil") }, []string{"file " + program}},
		"link that is listed": {func(t *testing.T, h *fakehost.Host) {
			linkOfRoot(t, h, link, "/bin/own")
		}, nil},
		"unit that is enabled": {func(t *testing.T, h *fakehost.Host) {
			linkOfRoot(t, h, unit, "/lib/systemd/system/own.service")
		}, []string{"file " + unit}},
		"package that is gone": {func(t *testing.T, h *fakehost.Host) {
			if err := os.Remove(h.Root.Path(conf)); err != nil {
				t.Fatal(err)
			}
		}, []string{"file " + conf + ", which was there before, is gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakehost.New(t)
			put(t, h, conf, "old")
			mkdir(t, h, "/var/lib/dpkg/info", "/usr/local/bin", "/etc/alternatives", "/etc/systemd/system/multi-user.target.wants")
			baseline := recorded(t, h)
			put(t, h, "/var/lib/dpkg/status", "Package: own\nConffiles:\n "+conf+" "+sum("new")+"\n")
			put(t, h, "/var/lib/dpkg/info/own.md5sums", sum("new")+"  usr/local/bin/own\n")
			put(t, h, "/var/lib/dpkg/info/own.list", "/etc\n"+link+"\n"+unit+"\n")
			c.change(t, h)
			if left := leftOf(t, h, baseline); !slices.Equal(left, c.left) {
				t.Errorf("left is %q, want %q", left, c.left)
			}
		})
	}
}

// TestModeOfAProgram: a program of which a bootstrap changed the mode alone has it back. One with another content of the same size and time is named.
func TestModeOfAProgram(t *testing.T) {
	const program = "/usr/bin/own"
	for content, want := range map[string][]string{"true": nil, "evil": {"file " + program + ", which is not what it was before"}} {
		h := fakehost.New(t)
		put(t, h, program, "true")
		put(t, h, "/var/lib/dpkg/info/own.md5sums", sum("true")+"  usr/bin/own\n")
		put(t, h, "/var/lib/dpkg/status", "Package: own\nVersion: 1\n")
		at := h.Root.Path(program)
		was, err := os.Stat(at)
		p := &progress{state: journal.State{Baseline: recorded(t, h), Residue: journal.ResidueFiles}}
		put(t, h, program, content)
		if err := errors.Join(err, os.Chmod(at, 0o755|os.ModeSetuid), os.Chtimes(at, was.ModTime(), was.ModTime()), h.Executor.Cleaner.RecordMade(t.Context(), p)); err != nil {
			t.Fatal(err)
		}
		if err := h.Executor.Cleaner.Reset(t.Context(), p); err != nil {
			t.Error(err)
		}
		if is, err := os.Stat(at); err != nil || is.Mode() != was.Mode() {
			t.Errorf("the mode is %v, %v", is.Mode(), err)
		}
		if left := leftOf(t, h, p.state.Baseline); !slices.Equal(left, want) {
			t.Errorf("left is %q, want %q", left, want)
		}
	}
}

// TestForgedPackage: what dpkg has of a package changes only with its version. A list that somebody edits has no file
// pass as the package's.
func TestForgedPackage(t *testing.T) {
	const conf, program, link = "/etc/own.conf", "/usr/local/bin/own", "/etc/alternatives/own"
	const later = ", which is not what it was before"
	status := func(version, content string) string {
		return "Package: own\nArchitecture: amd64\nMulti-Arch: same\nVersion: " + version + "\nConffiles:\n " + conf + " " + sum(content) + "\n\nPackage: other\nVersion: 1\n"
	}
	sums := func(content string) string { return sum(content) + "  usr/local/bin/own\n" }
	for name, c := range map[string]struct {
		files map[string]string
		link  string
		want  []string
	}{
		"an upgrade": {files: map[string]string{
			"/var/lib/dpkg/status": status("2", "new"), packageInfo + "own:amd64.md5sums": sums("new"), packageInfo + "own:amd64.postinst": "new", packageInfo + "own:amd64.list": link + "\n",
			conf: "new", program: "new",
		}, link: "/usr/local/bin/own"},
		"another package owns a file now": {files: map[string]string{
			"/var/lib/dpkg/status": strings.ReplaceAll(status("1", "old"), "other\nVersion: 1", "other\nVersion: 2"), packageInfo + "own:amd64.list": "/usr\n", "/var/lib/dpkg/diversions": "/bin/sh\n",
		}},
		"what dpkg is to put elsewhere": {
			files: map[string]string{"/var/lib/dpkg/diversions": "/bin/sh\n", "/var/lib/dpkg/statoverride": "root root 4755 /bin/sh\n"},
			want:  []string{"file /var/lib/dpkg/diversions", "file /var/lib/dpkg/statoverride"},
		},
		"a package that came": {files: map[string]string{
			"/var/lib/dpkg/status": status("1", "old") + "\nPackage: own-too\nVersion: 1\n", packageInfo + "own-too.md5sums": sum("new") + "  usr/local/bin/own-too\n", "/usr/local/bin/own-too": "new",
		}},
		"a forged sum": {
			files: map[string]string{packageInfo + "own:amd64.md5sums": sums("evil"), program: "evil"},
			want:  []string{"file " + program + later, "file " + packageInfo + "own:amd64.md5sums" + later},
		},
		"a forged sum of a configuration file": {
			files: map[string]string{"/var/lib/dpkg/status": status("1", "evil"), conf: "evil"},
			want:  []string{"file " + conf + later},
		},
		"a list of no package": {
			files: map[string]string{packageInfo + "evil.md5sums": sum("evil") + "  usr/local/bin/evil\n", "/usr/local/bin/evil": "evil"},
			want:  []string{"file /usr/local/bin/evil", "file " + packageInfo + "evil.md5sums"},
		},
		"a forged list": {
			files: map[string]string{packageInfo + "own:amd64.list": link + "\n/usr/local/bin/own\n"}, link: "/usr/local/bin/own",
			want: []string{"file " + link, "file " + packageInfo + "own:amd64.list" + later},
		},
		"a script that dpkg runs": {
			files: map[string]string{packageInfo + "own:amd64.postinst": "evil", packageInfo + "own:amd64.postrm": "evil"},
			want:  []string{"file " + packageInfo + "own:amd64.postinst" + later, "file " + packageInfo + "own:amd64.postrm"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakehost.New(t)
			mkdir(t, h, "/usr/local/bin", "/etc/alternatives")
			for path, content := range map[string]string{
				conf: "old", program: "old", "/var/lib/dpkg/status": status("1", "old"), packageInfo + "own:amd64.md5sums": sums("old"), packageInfo + "own:amd64.list": "/etc\n",
				packageInfo + "own:amd64.postinst": "old",
			} {
				put(t, h, path, content)
			}
			baseline := recorded(t, h)
			for path, content := range c.files {
				put(t, h, path, content)
			}
			if c.link != "" {
				linkOfRoot(t, h, link, c.link)
			}
			if found := leftOf(t, h, baseline); !slices.Equal(found, c.want) {
				t.Errorf("leftovers are %q, want %q", found, c.want)
			}
		})
	}
}

const packageInfo = "/var/lib/dpkg/info/"

// TestUpgradeOfAnRPM: likewise where rpm is asked, which lists the files of the package that differ.
func TestUpgradeOfAnRPM(t *testing.T) {
	const conf = "/etc/own.conf"
	verify := "rpm --verify --nodeps --noscripts --file " + conf
	for name, c := range map[string]struct {
		fails  map[string]int
		answer string
		own    bool
	}{
		"as the package has it":   {nil, "", true},
		"another file differs":    {nil, "S.5....T.  c /etc/other.conf\n", true},
		"it differs":              {nil, "S.5....T.  c " + conf + "\n", false},
		"no package has the file": {map[string]int{"rpm --query": 1}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakehost.New(t)
			put(t, h, conf, "old")
			mkdir(t, h, "/var/lib/rpm")
			baseline := recorded(t, h)
			put(t, h, conf, "new")
			h.Programs.Fail, h.Programs.Answer = c.fails, map[string]string{verify: c.answer}
			if left := leftOf(t, h, baseline); (len(left) == 0) != c.own {
				t.Errorf("left is %q", left)
			}
		})
	}
}

// TestCgroups: those that came go, systemd's and those that were there stay.
func TestCgroups(t *testing.T) {
	const root = "/sys/fs/cgroup"
	for name, hierarchy := range map[string]string{"v2": "", "v1": "/cpu"} {
		t.Run(name, func(t *testing.T) {
			h := fakehost.New(t)
			top := root + hierarchy
			mkdir(t, h, top+"/own", top+"/system.slice")
			if hierarchy == "" {
				put(t, h, root+"/cgroup.controllers", "cpu")
			}
			baseline := recorded(t, h)
			came := []string{top + "/kubepods.slice", top + "/kubelet.slice", top + "/plugin"}
			mkdir(t, h, came...)
			mkdir(t, h, top+"/plugin/a/b", top+"/user.slice", top+"/own/new")
			want := []string{"cgroup " + top + "/kubelet.slice", "cgroup " + top + "/kubepods.slice", "cgroup " + top + "/plugin"}
			if left := leftOf(t, h, baseline); !slices.Equal(left, want) {
				t.Errorf("left is %q, want %q", left, want)
			}
			// The kernel's directories have no cgroup.kill to write here; what is in one keeps it.
			_ = h.Executor.Reset(t.Context(), &progress{state: journal.State{Baseline: baseline}})
			if _, err := os.Lstat(h.Root.Path(top + "/plugin")); err == nil {
				t.Error("a cgroup of a plugin is left")
			}
			for _, path := range []string{"/own/new", "/system.slice", "/user.slice"} {
				if _, err := os.Lstat(h.Root.Path(top + path)); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
			put(t, h, top+"/plugin/cgroup.procs", "1")
			if left := leftOf(t, h, baseline); !slices.Contains(left, "cgroup "+top+"/plugin") {
				t.Errorf("a cgroup with processes is not named: %q", left)
			}
		})
	}
}

// TestSettingsOfTheKernel: what changed is set back, the global ones first; those of an interface that came, and those
// that change by themselves, are no drift. Nothing below /proc/sys is left out because nobody thought of it.
func TestSettingsOfTheKernel(t *testing.T) {
	h := fakehost.New(t)
	path := func(name string) string {
		if !strings.HasPrefix(name, "/") {
			name = "/proc/sys/" + name
		}
		return name
	}
	write := func(values map[string]string, n int) {
		for name, both := range values {
			put(t, h, path(name), strings.Split(both, "|")[n]+"\n")
		}
	}
	read := func(name string) string {
		content, err := os.ReadFile(h.Root.Path(path(name)))
		return strings.TrimSpace(string(errorOr(content, err)))
	}
	changed := map[string]string{
		"net/ipv4/ip_forward": "0|1", "net/ipv4/conf/eth0/rp_filter": "2|0", "vm/overcommit_memory": "0|1", "kernel/randomize_va_space": "2|0", "kernel/core_pattern": "core|",
		"/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0|4", "/sys/module/nf_conntrack/parameters/hashsize": "65536|131072", "/sys/kernel/uevent_helper": "|/tmp/evil",
		"/sys/fs/selinux/enforce": "1|0", "/sys/fs/selinux/booleans/virt_use_nfs": "0 0|1 1", "/sys/fs/cgroup/system.slice/memory.max": "max|1073741824", "/sys/fs/cgroup/system.slice/cpuset.cpus": "|0-1",
	}
	own := map[string]string{"net/netfilter/nf_log/2": "NONE|nf_log_ipv4", "kernel/ns_last_pid": "1|2", "kernel/random/uuid": "a|b"}
	const pages = "/sys/kernel/mm/transparent_hugepage/enabled"
	write(changed, 0)
	write(own, 0)
	put(t, h, pages, "always [madvise] never\n")
	put(t, h, "/proc/sys/dev/cdrom/info", "a\n")
	if err := os.Chmod(h.Root.Path("/proc/sys/dev/cdrom/info"), 0o444); err != nil {
		t.Fatal(err)
	}
	baseline := recorded(t, h)
	write(changed, 1)
	write(own, 1)
	put(t, h, "/proc/sys/net/ipv4/conf/cali1/rp_filter", "1\n")
	put(t, h, "/sys/fs/cgroup/machine.slice/memory.max", "1\n")
	put(t, h, pages, "[always] madvise never\n")
	var want []string
	for name := range changed {
		want = append(want, "setting "+name+", which is not what it was before")
	}
	want = append(want, "setting "+pages+", which is not what it was before")
	slices.Sort(want)
	if left := leftOf(t, h, baseline); !slices.Equal(left, want) {
		t.Errorf("left is %q, want %q", left, want)
	}
	if err := h.Executor.Reset(t.Context(), &progress{state: journal.State{Baseline: baseline}}); err != nil {
		t.Error(err)
	}
	if left := leftOf(t, h, baseline); len(left) > 0 {
		t.Errorf("left is %q", left)
	}
	for name, both := range changed {
		// To write nothing at all would change nothing.
		if is, err := os.ReadFile(h.Root.Path(path(name))); string(is) != strings.Split(both, "|")[0]+"\n" {
			t.Errorf("%s is %q, and was %q, %v", name, is, both, err)
		}
	}
	for name, both := range own {
		if is, now := read(name), strings.Split(both, "|")[1]; is != now {
			t.Errorf("%s is %q, and was %q", name, is, now)
		}
	}
	if is := read(pages); is != "madvise" || read("/sys/fs/selinux/commit_pending_bools") != "1" {
		t.Errorf("huge pages are %q", is)
	}
}

// TestMountsAreClosedAgain: a mount from which nobody ran programs is as it was after the reset; one of which an older agent recorded
// less stays.
func TestMountsAreClosedAgain(t *testing.T) {
	if os.Geteuid() != 0 {
		rights.Skip(t, "needs root for mounts")
	}
	runtime.LockOSThread() // the thread ends with the test, and its mounts with it
	if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")); err != nil {
		rights.Skip(t, "no mount namespace:", err)
	}
	h := fakehost.New(t)
	at := h.Root.Path("/srv/data")
	const closed, opened = "2 1 0:9 / /srv/data ro,nosuid,noexec - tmpfs a rw\n", "2 1 0:9 / /srv/data rw,nodev - tmpfs a rw\n"
	mkdir(t, h, "/srv/data")
	put(t, h, "/proc/self/mountinfo", closed)
	baseline := recorded(t, h)
	put(t, h, "/proc/self/mountinfo", opened)
	if err := unix.Mount("a", at, "tmpfs", unix.MS_NODEV|unix.MS_NOATIME, ""); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(at, unix.MNT_DETACH) }()
	if left := leftOf(t, h, baseline); !slices.Equal(left, []string{"mount /srv/data, which is not what it was before"}) {
		t.Errorf("left is %q", left)
	}
	if err := h.Executor.Reset(t.Context(), &progress{state: journal.State{Baseline: baseline}}); err != nil {
		t.Error(err)
	}
	is := unix.Statfs_t{}
	if err := unix.Statfs(at, &is); err != nil || is.Flags&(unix.ST_RDONLY|unix.ST_NOSUID|unix.ST_NOEXEC|unix.ST_NODEV|unix.ST_NOATIME) != unix.ST_RDONLY|unix.ST_NOSUID|unix.ST_NOEXEC|unix.ST_NOATIME {
		t.Errorf("the mount has flags %#x, %v", is.Flags, err)
	}
}

// TestFormatsOfPrograms: an interpreter that a pod gave to the kernel goes; one of the operator's that went is named.
func TestFormatsOfPrograms(t *testing.T) {
	h := fakehost.New(t)
	const top = "/proc/sys/fs/binfmt_misc/"
	put(t, h, top+"register", "")
	put(t, h, top+"status", "enabled\n")
	put(t, h, top+"python3", "enabled\ninterpreter /usr/bin/python3\n")
	baseline := recorded(t, h)
	put(t, h, top+"status", "disabled\n")
	put(t, h, top+"qemu-arm", "enabled\ninterpreter /usr/bin/qemu-arm-static\nflags: OCF\n")
	if left := leftOf(t, h, baseline); !slices.Equal(left, []string{"format of programs qemu-arm"}) {
		t.Errorf("left is %q", left)
	}
	if err := h.Executor.Reset(t.Context(), &progress{state: journal.State{Baseline: baseline}}); err != nil {
		t.Error(err)
	}
	// The kernel removes what is told -1.
	if told, err := os.ReadFile(h.Root.Path(top + "qemu-arm")); string(told) != "-1" {
		t.Errorf("the kernel is told %q, %v", told, err)
	}
	if err := errors.Join(os.Remove(h.Root.Path(top+"qemu-arm")), os.Remove(h.Root.Path(top+"python3"))); err != nil {
		t.Fatal(err)
	}
	if left := leftOf(t, h, baseline); !slices.Equal(left, []string{"format of programs python3, which was there before, is gone"}) {
		t.Errorf("left is %q", left)
	}
}

func errorOr(content []byte, err error) []byte {
	if err != nil {
		return []byte(err.Error())
	}
	return content
}

// TestExamplesOfIgnore: the entries that docs/hosts.md shows for tools that change a host by themselves.
func TestExamplesOfIgnore(t *testing.T) {
	h := fakehost.New(t)
	mkdir(t, h, "/etc/puppetlabs")
	put(t, h, "/etc/own.conf", "old")
	baseline := recorded(t, h)
	put(t, h, "/etc/puppetlabs/facter/facts.d/site.yaml", "x")
	put(t, h, "/etc/own.conf", "new")
	if left := leftOf(t, h, baseline); len(left) != 2 {
		t.Errorf("left is %q", left)
	}
	h.Executor.Cleaner.Ignore = []reset.Ignored{{Kind: "file", Name: "/etc/puppetlabs/**", Reason: "configuration management"}, {Kind: "file", Name: "/etc/own.conf", Reason: "configuration management"}}
	if left := leftOf(t, h, baseline); len(left) > 0 {
		t.Errorf("left is %q", left)
	}
	// An entry is for its kind alone.
	h.Executor.Cleaner.Ignore[1].Kind = "route"
	if left := leftOf(t, h, baseline); len(left) != 1 {
		t.Errorf("left is %q", left)
	}
	if err := errors.Join(h.Executor.Cleaner.Forget()); err != nil {
		t.Error(err)
	}
}

// pemOf is a file of certificates; what is in them does not matter.
func pemOf(names ...string) string {
	var all []byte
	for _, name := range names {
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(name)})...)
	}
	return string(all)
}

// TestWhatIsNoChangeOfTheMachine: what looks like the doing of a package, of the agent or of a service, and is not,
// is named; what is, is not.
func TestWhatIsNoChangeOfTheMachine(t *testing.T) {
	const conf, bundle, later = "/etc/own.conf", "/etc/ssl/certs/ca-certificates.crt", ", which is not what it was before"
	files := map[string]string{
		conf: "own", bundle: pemOf("a"), "/usr/share/ca-certificates/mozilla/a.crt": pemOf("a"), "/etc/resolv.conf": "nameserver 192.0.2.1\n", "/etc/machine-id": "1\n",
		"/etc/slipway/agent.yaml": "a", "/etc/slipway/containerd.toml": "a", "/usr/bin/own": "own", "/usr/lib/systemd/system/own.service": "own", "/usr/local/lib/large": "x",
		"/var/lib/dpkg/status": "Package: own\nConffiles:\n " + conf + " " + sum("own") + "\n", "/var/lib/dpkg/info/own.list": "/sbin/iptables-legacy\n",
		"/var/lib/dpkg/info/own.md5sums": sum("new") + "  usr/bin/own\n" + sum("new") + "  lib/systemd/system/own.service\n" + sum("new") + "  usr/bin/root\n",
		"/proc/swaps":                    "Filename Type Size Used Priority\n/swap\\040file file 1 0 -2\n", "/proc/modules": "ext4 1 0 - Live 0x0\n",
		"/proc/self/mountinfo": "1 0 8:1 / / rw shared:1 - ext4 /dev/a rw\n2 1 8:2 / /srv/data rw,nosuid,noexec shared:2 - ext4 /dev/b rw\n3 1 0:5 / /net rw - autofs a rw\n4 3 0:6 / /net/x rw - nfs a rw\n",
	}
	mounts := func(from, to string) func(*testing.T, *fakehost.Host) {
		return func(t *testing.T, h *fakehost.Host) {
			t.Helper()
			put(t, h, "/proc/self/mountinfo", strings.Replace(files["/proc/self/mountinfo"], from, to, 1))
		}
	}
	write := func(path, content string) func(*testing.T, *fakehost.Host) {
		return func(t *testing.T, h *fakehost.Host) { t.Helper(); put(t, h, path, content) }
	}
	link := func(path, target string) func(*testing.T, *fakehost.Host) {
		return func(t *testing.T, h *fakehost.Host) {
			t.Helper()
			linkOfRoot(t, h, path, target)
		}
	}
	for name, c := range map[string]struct {
		change func(*testing.T, *fakehost.Host)
		left   string
	}{
		"mode of a file of a package": {func(t *testing.T, h *fakehost.Host) {
			if err := os.Chmod(h.Root.Path(conf), 0o666); err != nil {
				t.Fatal(err)
			}
		}, "file " + conf + later},
		"a program of a package that runs as root": {func(t *testing.T, h *fakehost.Host) {
			put(t, h, "/usr/bin/root", "new")
			if err := os.Chmod(h.Root.Path("/usr/bin/root"), 0o755|fs.ModeSetuid); err != nil {
				t.Fatal(err)
			}
		}, "file /usr/bin/root"},
		"upgrade of a program":         {write("/usr/bin/own", "new"), ""},
		"another program":              {write("/usr/bin/own", "evil"), "file /usr/bin/own" + later},
		"upgrade of a unit below /lib": {write("/usr/lib/systemd/system/own.service", "new"), ""},
		"another unit":                 {write("/usr/lib/systemd/system/own.service", "evil"), "file /usr/lib/systemd/system/own.service" + later},
		"a certificate of a package": {func(t *testing.T, h *fakehost.Host) {
			put(t, h, "/usr/share/ca-certificates/mozilla/a.crt", pemOf("a", "b"))
			put(t, h, bundle, pemOf("a", "b"))
		}, "file /usr/share/ca-certificates/mozilla/a.crt" + later},
		"a certificate that nobody brought":      {write(bundle, pemOf("a", "evil")), "file " + bundle + later},
		"a link to a certificate":                {link("/etc/ssl/certs/a.pem", "/usr/share/ca-certificates/mozilla/a.crt"), ""},
		"a link to something else":               {link("/etc/ssl/certs/a.pem", "/tmp/evil.crt"), "file /etc/ssl/certs/a.pem"},
		"names of other machines":                {write("/etc/resolv.conf", "nameserver 10.96.0.10\n"), "file /etc/resolv.conf" + later},
		"an alternative of a package":            {link("/etc/alternatives/iptables", "/usr/sbin/iptables-legacy"), ""},
		"an alternative of somebody else":        {link("/etc/alternatives/iptables", "/tmp/iptables"), "file /etc/alternatives/iptables"},
		"the identity of the machine":            {write("/etc/machine-id", "2\n"), "file /etc/machine-id" + later},
		"a connection":                           {write("/etc/NetworkManager/system-connections/a", ""), "directory /etc/NetworkManager"},
		"a name like a package manager's":        {write("/etc/profile.d/a.dpkg-b.sh", ""), "directory /etc/profile.d"},
		"what a package manager leaves":          {write(conf+".dpkg-old", ""), ""},
		"the operator's word to the agent":       {write("/etc/slipway/agent.yaml", "b"), ""},
		"software of the agent, another version": {write("/etc/slipway/containerd.toml", "b"), ""},
		"a unit with a name of the agent's":      {write("/etc/systemd/system/slipway-evil.service", ""), "directory /etc/systemd"},
		"a unit of the agent's software": {func(t *testing.T, h *fakehost.Host) {
			put(t, h, "/var/lib/slipway-software.json", `{"entries": [{"path": "/etc/systemd/system/slipway-containerd.service", "digest": "`+digest.FromString("a").String()+`"}]}`)
			put(t, h, "/etc/systemd/system/slipway-containerd.service", "a")
		}, "directory /etc/systemd"},
		"what kubectl keeps":     {write("/root/.kube/cache/discovery/a", "x"), ""},
		"a cluster of kubectl":   {write("/root/.kube/config", "x"), "file /root/.kube/config"},
		"a rule of polkit":       {write("/usr/share/polkit-1/rules.d/a.rules", "x"), "file /usr/share/polkit-1/rules.d/a.rules"},
		"a service of the bus":   {write("/usr/share/dbus-1/system-services/a.service", "x"), "file /usr/share/dbus-1/system-services/a.service"},
		"a script of cloud-init": {write("/var/lib/cloud/scripts/per-boot/a", "x"), "file /var/lib/cloud/scripts/per-boot/a"},
		"until the next boot":    {write("/run/systemd/system.control/own.service.d/50-a.conf", "x"), "directory /run/systemd/system.control/own.service.d"},
		"swap that is off":       {write("/proc/swaps", "Filename Type\n"), "swap space /swap file, which was there before, is gone"},
		"a module of the kernel": {write("/proc/modules", "ext4 1\nnf_nat 1 0\n"), ""},
		"a module from elsewhere": {func(t *testing.T, h *fakehost.Host) {
			put(t, h, "/proc/modules", "ext4 1\nevil 1 0\n")
			put(t, h, "/sys/module/evil/taint", "OE\n")
		}, "kernel module evil"},
		"a disk that is not mounted": {mounts("2 1 8:2 / /srv/data rw,nosuid,noexec shared:2 - ext4 /dev/b rw\n", ""), "mount /srv/data, which was there before, is gone"},
		"a disk that is read-only":   {mounts("/srv/data rw,", "/srv/data ro,"), "mount /srv/data" + later},
		"a disk that runs programs":  {mounts("/srv/data rw,nosuid,noexec", "/srv/data rw,nosuid"), "mount /srv/data" + later},
		"a disk with other times":    {mounts("/srv/data rw,nosuid,noexec", "/srv/data rw,nosuid,noexec,noatime"), ""},
		"a disk that others see":     {mounts("/ / rw shared:1", "/ / rw"), "mount /" + later},
		"an automount that expires":  {mounts("4 3 0:6 / /net/x rw - nfs a rw\n", ""), ""},
		"a large file with the time of the former": {func(t *testing.T, h *fakehost.Host) {
			at := h.Root.Path("/usr/local/lib/large")
			was, err := os.Stat(at)
			if err != nil {
				t.Fatal(err)
			}
			put(t, h, "/usr/local/lib/large", "y")
			if err := errors.Join(os.Truncate(at, was.Size()), os.Chtimes(at, was.ModTime(), was.ModTime())); err != nil {
				t.Fatal(err)
			}
		}, "file /usr/local/lib/large" + later},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakehost.New(t)
			for path, content := range files {
				put(t, h, path, content)
			}
			if err := os.Truncate(h.Root.Path("/usr/local/lib/large"), 33<<20); err != nil {
				t.Fatal(err)
			}
			mkdir(t, h, "/sys", "/etc/alternatives", "/usr/share/polkit-1/rules.d", "/usr/share/dbus-1/system-services", "/var/lib/cloud/scripts/per-boot", "/run/systemd/system.control", "/root/.kube")
			baseline := recorded(t, h)
			c.change(t, h)
			left, err := h.Executor.Verify(t.Context(), journal.State{Baseline: baseline, Made: map[string]string{}})
			if got := strings.Join(left, "; "); got != c.left || err != nil {
				t.Errorf("left is %q, want %q: %v", got, c.left, err)
			}
		})
	}
}

// TestAttributesOfFiles: access control lists, capabilities and flags of files count, and are restored.
func TestAttributesOfFiles(t *testing.T) {
	const own, locked = "/etc/cni/net.d/own.conf", "/etc/cni/net.d/locked.conf"
	h := fakehost.New(t)
	put(t, h, own, "own")
	put(t, h, locked, "own")
	for _, path := range []string{own, locked} {
		if err := os.Chmod(h.Root.Path(path), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	flag := func(path string, want durable.Attributes) {
		t.Helper()
		err := durable.WithParent(string(h.Root), path, func(d *durable.Dir, name string) error { return d.SetAttributes(name, want) })
		if err != nil {
			rights.Skip(t, "the file system has no attributes:", err)
		}
	}
	flag(own, durable.Attributes{Extended: map[string][]byte{"user.own": []byte("own")}})
	flag(locked, durable.Attributes{Immutable: true})
	t.Cleanup(func() { flag(locked, durable.Attributes{}); flag(own, durable.Attributes{}) }) // or nobody can remove them
	baseline := recorded(t, h)
	capability := []byte{1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	flag(own, durable.Attributes{Immutable: true, Extended: map[string][]byte{"security.capability": capability}})
	flag(locked, durable.Attributes{})
	want := []string{"file " + locked + ", which is not what it was before", "file " + own + ", which is not what it was before"}
	if left := leftOf(t, h, baseline); !slices.Equal(left, want) {
		t.Errorf("left is %q, want %q", left, want)
	}
	if err := h.Executor.Reset(t.Context(), &progress{state: journal.State{Baseline: baseline}}); err != nil {
		t.Error(err)
	}
	if left := leftOf(t, h, baseline); len(left) > 0 {
		t.Errorf("left is %q", left)
	}
}

// TestHeldPackages: a package that the bootstrap has dpkg hold is upgraded again, and one that it released is held again.
func TestHeldPackages(t *testing.T) {
	h := fakehost.New(t)
	status := func(own, theirs string) {
		put(t, h, "/var/lib/dpkg/status", "Package: own\nStatus: "+own+" ok installed\nVersion: 1\n\nPackage: theirs\nStatus: "+theirs+" ok installed\nVersion: 1\n")
	}
	status("hold", "install")
	baseline := recorded(t, h)
	status("install", "hold")
	want := []string{"held package theirs", "held package own, which was there before, is gone"}
	if left := leftOf(t, h, baseline); !slices.Equal(left, want) {
		t.Errorf("left is %q, want %q", left, want)
	}
	if err := h.Executor.Cleaner.Reset(t.Context(), &progress{state: journal.State{Baseline: baseline, Residue: journal.ResidueFiles}}); err != nil {
		t.Error(err)
	}
	for _, line := range []string{"dpkg --set-selections <<< theirs install", "dpkg --set-selections <<< own hold"} {
		if !slices.Contains(h.Programs.Ran(), line) {
			t.Errorf("did not run %q", line)
		}
	}
}
