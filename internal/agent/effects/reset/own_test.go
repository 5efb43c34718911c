package reset_test

import (
	"crypto/md5" //nolint:gosec // what dpkg has of each file
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/effects/reset"
	"github.com/slipway-dev/slipway/test/fakehost"
)

func sum(content string) string {
	digest := md5.Sum([]byte(content)) //nolint:gosec // as above
	return hex.EncodeToString(digest[:])
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
			mkdir(t, h, "/etc/alternatives")
			if err := os.Symlink("/bin/own", h.Root.Path(link)); err != nil {
				t.Fatal(err)
			}
		}, nil},
		"unit that is enabled": {func(t *testing.T, h *fakehost.Host) {
			mkdir(t, h, "/etc/systemd/system/multi-user.target.wants")
			if err := os.Symlink("/lib/systemd/system/own.service", h.Root.Path(unit)); err != nil {
				t.Fatal(err)
			}
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
			mkdir(t, h, "/var/lib/dpkg", "/usr/local/bin", "/etc/alternatives", "/etc/systemd/system/multi-user.target.wants")
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
// that change by themselves, are no drift.
func TestSettingsOfTheKernel(t *testing.T) {
	h := fakehost.New(t)
	write := func(name, value string) { put(t, h, "/proc/sys/"+name, value) }
	read := func(name string) string {
		content, err := os.ReadFile(h.Root.Path("/proc/sys/" + name))
		return string(errorOr(content, err))
	}
	write("net/ipv4/ip_forward", "0\n")
	write("net/ipv4/conf/eth0/rp_filter", "2\n")
	write("vm/overcommit_memory", "0\n")
	write("net/netfilter/nf_log/2", "NONE\n")
	write("dev/cdrom/info", "a\n")
	baseline := recorded(t, h)
	write("net/ipv4/ip_forward", "1\n")
	write("net/ipv4/conf/eth0/rp_filter", "0\n")
	write("vm/overcommit_memory", "1\n")
	write("net/netfilter/nf_log/2", "nf_log_ipv4\n")
	write("net/ipv4/conf/cali1/rp_filter", "1\n")
	write("dev/cdrom/info", "b\n")
	want := []string{"setting net/ipv4/conf/eth0/rp_filter, which is not what it was before", "setting net/ipv4/ip_forward, which is not what it was before",
		"setting vm/overcommit_memory, which is not what it was before"}
	if left := leftOf(t, h, baseline); !slices.Equal(left, want) {
		t.Errorf("left is %q, want %q", left, want)
	}
	if err := h.Executor.Reset(t.Context(), &progress{state: journal.State{Baseline: baseline}}); err != nil {
		t.Error(err)
	}
	if left := leftOf(t, h, baseline); len(left) > 0 || read("net/ipv4/ip_forward") != "0" || read("net/ipv4/conf/eth0/rp_filter") != "2" || read("dev/cdrom/info") != "b\n" {
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
