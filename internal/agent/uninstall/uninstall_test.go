package uninstall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/agent/software"
	"github.com/slipway-dev/slipway/internal/testenv/powercut"
)

const configuration = "apiVersion: agent.slipway.dev/v1alpha1\nkind: AgentConfiguration\nnamespace: prod\n"

// bare looks like a small Debian.
func bare(t *testing.T) hostfs.Root {
	t.Helper()
	root := hostfs.Root(t.TempDir())
	for _, dir := range []string{"/usr/local/bin", "/var/lib", "/var/log", "/etc/systemd/system/multi-user.target.wants", "/etc/kubernetes"} {
		if err := os.MkdirAll(root.Path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, root, "/usr/local/bin/own-script", "")
	put(t, root, "/etc/systemd/system/own.service", "")
	return root
}

func put(t *testing.T, root hostfs.Root, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(root.Path(path)), 0o755), os.WriteFile(root.Path(path), []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// enroll puts there what `slipway host add` and the life of an agent do, interrupted
// writes among it.
func enroll(t *testing.T, root hostfs.Root) {
	t.Helper()
	for path, content := range map[string]string{
		"/usr/local/bin/slipway-agent": "program", "/usr/local/bin/slipway-agent.new": "torn",
		"/usr/local/bin/slipway-agent.next": "cut short", "/usr/local/bin/slipway-agent.next.part": "torn",
		"/etc/slipway/agent.yaml": configuration, "/etc/slipway/.agent.yaml.123": "torn",
		"/etc/slipway/hostbundle.pub": "key", "/etc/slipway/.hostbundle.pub.7": "torn",
		"/etc/slipway/bootstrap-kubeconfig": "secret", "/etc/slipway/.bootstrap-kubeconfig.9": "torn",
		"/etc/systemd/system/slipway-agent.service": "[Unit]", "/etc/systemd/system/slipway-agent.service.new": "torn",
		"/var/lib/slipway-agent/identity.key": "secret", "/var/lib/slipway-agent/lock": "", "/var/lib/slipway-agent/a/b": "of a later version",
		"/var/lib/slipway-host-add/slipway-agent": "program", "/var/log/slipway-bootstrap.log": "log",
	} {
		put(t, root, path, content)
	}
	if err := os.Symlink(unitPath, root.Path("/etc/systemd/system/multi-user.target.wants/"+unitName)); err != nil {
		t.Fatal(err)
	}
}

func tree(t *testing.T, root hostfs.Root) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(string(root), func(path string, _ fs.DirEntry, err error) error {
		found[strings.TrimPrefix(path, string(root))] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func run(t *testing.T, root hostfs.Root) (Report, error) {
	t.Helper()
	h, err := open(root, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return h.Run(t.Context())
}

// systemctl remembers what it was told, and whether the agent runs.
type systemctl struct {
	told []string
	// onStop is what the agent did until it stopped.
	onStop func()
}

func (s *systemctl) Run(_ context.Context, _ string, args ...string) ([]byte, error) {
	s.told = append(s.told, strings.Join(args, " "))
	if args[0] == "stop" && s.onStop != nil {
		s.onStop()
	}
	return nil, nil
}

func (s *systemctl) RunInput(ctx context.Context, _ []byte, name string, args ...string) ([]byte, error) {
	return s.Run(ctx, name, args...)
}

func (*systemctl) Has(string) bool { return true }

// The file system is as it was, whenever the power is cut.
func TestPowerCuts(t *testing.T) {
	for n := 1; ; n++ {
		root := bare(t)
		before := tree(t, root)
		enroll(t, root)
		h, err := open(root, os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		cut := powercut.At(t, string(root), n)
		_, err = h.Run(t.Context())
		cut.On()
		if err == nil {
			if len(cut.Changes) < 8 {
				t.Errorf("only %q", cut.Changes)
			}
			if last := cut.Changes[len(cut.Changes)-1]; last != "remove "+filepath.Base(agentPath) {
				t.Errorf("the program is not the last of %q", cut.Changes)
			}
			return
		}
		if !errors.Is(err, powercut.ErrCut) {
			t.Fatal(err)
		}
		if !tree(t, root)[agentPath] {
			t.Fatalf("cut at %q: nothing is there to go on with", cut.Changes)
		}
		report, err := run(t, root)
		if err != nil || len(report.Left) > 0 {
			t.Errorf("cut at %q: %+v, %v", cut.Changes, report, err)
		}
		if after := tree(t, root); !maps.Equal(after, before) {
			t.Errorf("cut at %q: have %v, want %v", cut.Changes, slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
		}
	}
}

// A host that serves, or may, is left exactly as it is.
func TestServes(t *testing.T) {
	for name, tc := range map[string]struct {
		state journal.State
		file  string
		want  string
	}{
		"node":            {state: journal.State{ClaimID: "c", BootstrappedClaimID: "c"}, want: "a node, of claim c"},
		"at work":         {state: journal.State{ClaimID: "c", Operation: &journal.Operation{Phase: infrav1.HostDesiredReset, State: infrav1.OperationRunning}}, want: "at work: Reset of claim c"},
		"not reset":       {state: journal.State{ClaimID: "c", Residue: journal.ResidueCommands}, want: "not reset: claim c left Commands"},
		"address":         {state: journal.State{VirtualIP: "192.0.2.1"}, want: "control-plane address 192.0.2.1"},
		"without journal": {file: "/etc/kubernetes/kubelet.conf", want: "/etc/kubernetes/kubelet.conf is there: the host is a node"},
	} {
		t.Run(name, func(t *testing.T) {
			root := bare(t)
			enroll(t, root)
			if tc.file != "" {
				put(t, root, tc.file, "")
			} else {
				keep(t, root, tc.state)
			}
			before := tree(t, root)
			h, err := open(root, os.Stderr)
			if err != nil {
				t.Fatal(err)
			}
			ctl := &systemctl{}
			h.Systemctl = ctl
			if err := Command(t.Context(), []string{"--check", "--root", string(root)}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("a package manager may take the agent away: %v", err)
			}
			_, err = h.Run(t.Context())
			var serves *ServesError
			if !errors.As(err, &serves) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "nothing was changed") {
				t.Errorf("got %v", err)
			}
			if !maps.Equal(tree(t, root), before) || len(ctl.told) > 0 {
				t.Errorf("the host was changed, systemctl was told %q", ctl.told)
			}
		})
	}
}

// A package manager may take the program away where nothing needs it any more.
func TestCheck(t *testing.T) {
	root := bare(t)
	enroll(t, root)
	before := tree(t, root)
	check := func() error {
		return Command(t.Context(), []string{"--check", "--root", string(root)}, io.Discard, io.Discard)
	}
	if err := check(); err != nil {
		t.Errorf("a host that is no node keeps its agent: %v", err)
	}
	if !maps.Equal(tree(t, root), before) {
		t.Error("the host was changed")
	}
	put(t, root, "/var/lib/slipway-software.json", `{"releases": [{"state": "Installed", "kubernetesVersion": "v1.36.3"}]}`)
	if err := check(); err == nil || !strings.Contains(err.Error(), "Kubernetes v1.36.3") || !strings.Contains(err.Error(), "`slipway-agent uninstall` first") {
		t.Errorf("software is left that nobody else takes away: %v", err)
	}
}

func keep(t *testing.T, root hostfs.Root, s journal.State) {
	t.Helper()
	j, err := journal.Open(root.Path("/var/lib/slipway-agent/" + config.JournalFile))
	if err == nil {
		err = errors.Join(j.Update(func(kept *journal.State) { *kept = s }), j.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// An operation that comes until the agent has stopped is not lost: the agent goes on with it,
// after the next boot if the power is cut before it is started again.
func TestOperationGivenMeanwhile(t *testing.T) {
	root := bare(t)
	enroll(t, root)
	h, err := open(root, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	ctl := &systemctl{onStop: func() { keep(t, root, journal.State{ClaimID: "c", Residue: journal.ResidueFiles}) }}
	h.Systemctl = ctl
	before := tree(t, root)
	_, err = h.Run(t.Context())
	var serves *ServesError
	if !errors.As(err, &serves) || !slices.Equal(ctl.told, []string{"stop slipway-agent.service", "start slipway-agent.service"}) {
		t.Errorf("%v, systemctl was told %q", err, ctl.told)
	}
	before["/var/lib/slipway-agent/journal"], before["/var/lib/slipway-agent/journal.spare"] = true, true
	if !maps.Equal(tree(t, root), before) {
		t.Error("the host was changed")
	}
}

// A node that is not Slipway's stays as it is, without the agent.
func TestNodeOfSomebodyElse(t *testing.T) {
	root := bare(t)
	put(t, root, "/etc/kubernetes/kubelet.conf", "")
	before := tree(t, root)
	enroll(t, root)
	keep(t, root, journal.State{Found: []string{"file /etc/kubernetes/kubelet.conf"}})
	if report, err := run(t, root); err != nil || len(report.Left) > 0 || !maps.Equal(tree(t, root), before) {
		t.Errorf("%+v, %v", report, err)
	}
}

// An agent that systemd does not know of is not robbed of its state.
func TestAgentThatRuns(t *testing.T) {
	root := bare(t)
	enroll(t, root)
	f, err := os.Open(root.Path("/var/lib/slipway-agent/lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	before := tree(t, root)
	h, err := open(root, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	ctl := &systemctl{}
	h.Systemctl = ctl
	if _, err := h.Run(t.Context()); !errors.Is(err, ErrBusy) || !maps.Equal(tree(t, root), before) {
		t.Errorf("got %v", err)
	}
	if !slices.Equal(ctl.told, []string{"stop slipway-agent.service"}) {
		t.Errorf("systemctl was told %q", ctl.told)
	}
}

// The agent runs again, now and after each boot, where another command keeps the software.
func TestSoftwareThatIsBusy(t *testing.T) {
	root := bare(t)
	enroll(t, root)
	f, err := os.Open(root.Path("/var/lib"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	h, err := open(root, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	ctl := &systemctl{}
	h.Systemctl = ctl
	before := tree(t, root)
	_, err = h.Run(t.Context())
	var refused *software.Error
	if !errors.As(err, &refused) || refused.Reason != software.ReasonBusy || !maps.Equal(tree(t, root), before) {
		t.Errorf("got %v", err)
	}
	if want := []string{"stop slipway-agent.service", "disable slipway-agent.service", "enable --now slipway-agent.service"}; !slices.Equal(ctl.told, want) {
		t.Errorf("systemctl was told %q, want %q", ctl.told, want)
	}
}

// A run that goes on after the unit was removed has nothing to disable.
func TestUnitThatIsGone(t *testing.T) {
	root := bare(t)
	enroll(t, root)
	if err := os.Remove(root.Path(unitPath)); err != nil {
		t.Fatal(err)
	}
	h, err := open(root, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	ctl := &systemctl{}
	h.Systemctl = ctl
	if report, err := h.Run(t.Context()); err != nil || len(report.Left) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if want := []string{"--quiet is-active slipway-agent.service", "stop slipway-agent.service"}; !slices.Equal(ctl.told, want) {
		t.Errorf("systemctl was told %q, want %q", ctl.told, want)
	}
}

// What is somebody else's stays, and is named.
func TestLeft(t *testing.T) {
	root := bare(t)
	enroll(t, root)
	put(t, root, "/etc/slipway/agent.yaml", configuration+"stateDir: /srv/state\n")
	put(t, root, "/etc/slipway/notes", "mine")
	for _, name := range slices.Concat(config.StateFiles, []string{".identity.key.7", "notes", ".agent-update.json.5", "agent-update.fetched/blobs/x"}) {
		put(t, root, "/srv/state/"+name, "")
	}
	var out bytes.Buffer
	err := Command(t.Context(), []string{"--root", string(root), "-o", "json"}, &out, os.Stderr)
	var report Report
	if !errors.Is(err, ErrLeft) || json.Unmarshal(out.Bytes(), &report) != nil || len(report.Left) != 2 ||
		report.Left[0] != (Left{"/srv/state", "it has files that are not the agent's: notes"}) || report.Left[1].Path != "/etc/slipway" || !strings.Contains(report.Left[1].Why, "not the agent's: notes") {
		t.Errorf("%v: %s", err, &out)
	}
	// The default state directory is nobody's that this agent knows of.
	if after := tree(t, root); !after["/etc/slipway/notes"] || !after["/srv/state/notes"] || !after["/var/lib/slipway-agent/identity.key"] || after[agentPath] {
		t.Error("the wrong things were removed")
	}
}

// The software comes before the host is enrolled: the directory that it makes for its
// configuration has that of the agent later.
func TestDirectoryOfBoth(t *testing.T) {
	const record = `{"releases": [{"state": "Installed", "kubernetesVersion": "v1.36.3"}], "entries": [{"path": "/etc/slipway", "kind": "Directory"}]}`
	root := bare(t)
	before := tree(t, root)
	enroll(t, root)
	put(t, root, "/var/lib/slipway-software.json", record)
	if report, err := run(t, root); err != nil || len(report.Left) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if after := tree(t, root); !maps.Equal(after, before) {
		t.Errorf("have %v, want %v", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
	}

	enroll(t, root)
	put(t, root, "/var/lib/slipway-software.json", record)
	put(t, root, "/etc/slipway/notes", "mine")
	want := []Left{{"/etc/slipway", "it has files that are not the agent's: notes"}}
	if report, err := run(t, root); err != nil || !slices.Equal(report.Left, want) {
		t.Errorf("%+v, %v, want %v", report, err, want)
	}
}

func TestCommand(t *testing.T) {
	for want, args := range map[string][]string{
		"want no arguments": {"now"}, "want table or json": {"-o", "xml"}, "absolute path": {"--root", "here"}, "not defined": {"--all"},
	} {
		if err := Command(t.Context(), args, os.Stderr, os.Stderr); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
	root := bare(t)
	enroll(t, root)
	for range 2 {
		var out bytes.Buffer
		if err := Command(t.Context(), []string{"--root", string(root)}, &out, os.Stderr); err != nil || !strings.HasPrefix(out.String(), "Nothing is left of slipway-agent.") {
			t.Errorf("%v: %s", err, &out)
		}
	}
}

// TestStateOnAnotherDisk: a state directory that is a link loses what is the agent's, its key above all, and nothing else. One
// that leads nowhere on this host is named.
func TestStateOnAnotherDisk(t *testing.T) {
	for name, c := range map[string]struct {
		target, others string
		gone           bool
	}{
		"own directory":    {target: "../../srv/disk/slipway-agent", gone: true},
		"others are there": {target: "../../srv/disk/slipway-agent", others: "/srv/disk/slipway-agent/backup"},
		"leads away":       {target: "../../../../../nonexistent"},
	} {
		t.Run(name, func(t *testing.T) {
			root := bare(t)
			for _, path := range []string{"identity.key", "journal.damaged-2", "journal.spare", "records/kept-1"} {
				put(t, root, "/srv/disk/slipway-agent/"+path, "secret")
			}
			if c.others != "" {
				put(t, root, c.others, "theirs")
			}
			if err := os.Symlink(c.target, root.Path("/var/lib/slipway-agent")); err != nil {
				t.Fatal(err)
			}
			report, err := (&Host{Root: root, Config: config.Default(), Software: &software.Host{Root: root}}).Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, key := os.Lstat(root.Path("/srv/disk/slipway-agent/identity.key"))
			if name != "leads away" && key == nil {
				t.Error("the key of the host is there")
			}
			if (len(report.Left) == 0) != c.gone {
				t.Errorf("left are %+v", report.Left)
			}
			if c.others != "" {
				if content, err := os.ReadFile(root.Path(c.others)); err != nil || string(content) != "theirs" {
					t.Errorf("what is not the agent's: %q, %v", content, err)
				}
			}
		})
	}
}
