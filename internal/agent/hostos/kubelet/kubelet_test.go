package kubelet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

var args = Arguments{ProviderID: "slipway://ns/h/c", NodeIP: "10.0.0.5"}

func TestApplyAndRemove(t *testing.T) {
	for name, c := range map[string]struct{ before, value string }{
		"empty file":        {"", `"--provider-id=slipway://ns/h/c --node-ip=10.0.0.5"`},
		"no assignment":     {"# comment\nOTHER=1\n", `"--provider-id=slipway://ns/h/c --node-ip=10.0.0.5"`},
		"no last newline":   {"OTHER=1", `"--provider-id=slipway://ns/h/c --node-ip=10.0.0.5"`},
		"empty assignment":  {"KUBELET_EXTRA_ARGS=\n", `"--provider-id=slipway://ns/h/c --node-ip=10.0.0.5"`},
		"double quotes":     {"KUBELET_EXTRA_ARGS=\"--v=4 --max-pods=50\"\nOTHER=1\n", `"--v=4 --max-pods=50 --provider-id=slipway://ns/h/c --node-ip=10.0.0.5"`},
		"single quotes":     {"KUBELET_EXTRA_ARGS='--v=4'\n", `'--v=4 --provider-id=slipway://ns/h/c --node-ip=10.0.0.5'`},
		"no quotes":         {"export KUBELET_EXTRA_ARGS=--v=4\n", `"--v=4 --provider-id=slipway://ns/h/c --node-ip=10.0.0.5"`},
		"same flags":        {"KUBELET_EXTRA_ARGS=\"--node-ip=1.1.1.1 --provider-id old --v=4\"\n", `"--v=4 --provider-id=slipway://ns/h/c --node-ip=10.0.0.5"`},
		"the last one wins": {"KUBELET_EXTRA_ARGS=--v=1\nKUBELET_EXTRA_ARGS=--v=2\n", `"--v=2 --provider-id=slipway://ns/h/c --node-ip=10.0.0.5"`},
	} {
		t.Run(name, func(t *testing.T) {
			root := hostfs.Root(t.TempDir())
			path := root.Path(defaultFile)
			put(t, path, c.before)
			for range 2 {
				if err := Apply(root, args); err != nil {
					t.Fatal(err)
				}
			}
			if got := get(t, path); !strings.Contains(got, "KUBELET_EXTRA_ARGS="+c.value+"\n") {
				t.Errorf("file is %q, want the value %s", got, c.value)
			}
			for range 2 {
				if err := Remove(root); err != nil {
					t.Fatal(err)
				}
			}
			if got := strings.TrimSuffix(get(t, path), "\n"); got != strings.TrimSuffix(c.before, "\n") {
				t.Errorf("after removal %q, before %q", got, c.before)
			}
		})
	}
}

// What SetRegistered writes is what Apply would have written.
func TestSetRegistered(t *testing.T) {
	for _, before := range []string{"", "KUBELET_EXTRA_ARGS=\"--v=4\"\n", "KUBELET_EXTRA_ARGS='--node-ip 1.1.1.1 --v=4'\n"} {
		root := hostfs.Root(t.TempDir())
		path := root.Path(defaultFile)
		put(t, path, before)
		if err := SetRegistered(root, false); err != nil || get(t, path) != before {
			t.Errorf("without arguments of ours: %q, %v", get(t, path), err)
		}
		for _, registered := range []bool{true, false, true} {
			wanted := args
			wanted.Registered = registered
			if err := Apply(root, wanted); err != nil {
				t.Fatal(err)
			}
			want := get(t, path)
			if err := errors.Join(SetRegistered(root, !registered), SetRegistered(root, registered)); err != nil || get(t, path) != want {
				t.Errorf("got %q, want %q: %v", get(t, path), want, err)
			}
			if got, err := Registered(root); got != registered || err != nil {
				t.Errorf("registered: %t, want %t: %v", got, registered, err)
			}
		}
	}
}

func TestApplyMakesAndRemovesFiles(t *testing.T) {
	root := hostfs.Root(t.TempDir())
	if err := os.MkdirAll(filepath.Dir(root.Path(sysconfigFile)), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Apply(root, Arguments{ProviderID: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{defaultFile, sysconfigFile} {
		if got := get(t, root.Path(path)); strings.Count(got, "KUBELET_EXTRA_ARGS=\"--provider-id=a\"\n") != 1 {
			t.Errorf("%s is %q", path, got)
		}
	}
	// Once more, as after an interrupted reset.
	if err := errors.Join(Remove(root), Remove(root)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{defaultFile, sysconfigFile} {
		if _, err := os.Stat(root.Path(path)); err == nil {
			t.Errorf("%s is left", path)
		}
	}
}

func TestApplyReplacesTheArgumentsOfAnEarlierClaim(t *testing.T) {
	root := hostfs.Root(t.TempDir())
	for _, id := range []string{"old", "new"} {
		if err := Apply(root, Arguments{ProviderID: id}); err != nil {
			t.Fatal(err)
		}
	}
	if got := get(t, root.Path(defaultFile)); strings.Contains(got, "old") || !strings.Contains(got, "--provider-id=new") {
		t.Errorf("file is %q", got)
	}
}

// A kubelet's labels are a map: those of the operator stay, those of the same key give way, and it stays
// so when the arguments are read and written again.
func TestNodeLabelsAreMerged(t *testing.T) {
	const before = "KUBELET_EXTRA_ARGS=\"--node-labels=rack=old,gpu --v=4 --node-labels disk=ssd,rack=older\"\n"
	for name, c := range map[string]struct{ labels, want string }{
		"some": {"gpu=2,rack=new", "--v=4 --provider-id=a --node-labels=disk=ssd,gpu=2,rack=new"},
		"none": {"", "--v=4 --provider-id=a --node-labels=disk=ssd,gpu,rack=older"},
	} {
		t.Run(name, func(t *testing.T) {
			root := hostfs.Root(t.TempDir())
			path := root.Path(defaultFile)
			put(t, path, before)
			err := errors.Join(Apply(root, Arguments{ProviderID: "a", NodeLabels: c.labels}), SetRegistered(root, true), SetRegistered(root, false))
			if got := get(t, path); err != nil || !strings.HasSuffix(got, "KUBELET_EXTRA_ARGS=\""+c.want+"\"\n") {
				t.Errorf("the file is\n%s, %v, want %s", got, err, c.want)
			}
			if err := Remove(root); err != nil || get(t, path) != before {
				t.Errorf("after the removal it is %q, %v", get(t, path), err)
			}
		})
	}
}

// path is a Runner whose programs are those of a directory with their version.
type path map[string]string

func (p path) Has(name string) bool { return p[name] != "" }
func (p path) Run(_ context.Context, name string, _ ...string) ([]byte, error) {
	return []byte(p[name] + "\n"), nil
}
func (p path) RunInput(ctx context.Context, _ []byte, name string, args ...string) ([]byte, error) {
	return p.Run(ctx, name, args...)
}

func TestSelect(t *testing.T) {
	root := hostfs.Root(t.TempDir())
	for _, v := range []string{"v1.35.4", "v1.36.3"} {
		for _, program := range []string{"kubelet", "kubeadm"} {
			put(t, root.Path("/opt/k8s/"+v+"/"+program), v)
		}
	}
	versions := Versions{Root: root, Directories: []string{"/opt/k8s"}, Runner: path{"kubelet": "Kubernetes v1.35.4", "kubeadm": "v1.35.4"}}
	if got := strings.Join(versions.Installed(t.Context()), " "); got != "v1.35.4 v1.36.3" {
		t.Errorf("installed are %q", got)
	}
	for _, v := range []string{"", "v1.35.4"} {
		if err := versions.Select(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(root.Path(linkDirectory)); err == nil {
		t.Error("links were made although PATH has the version")
	}
	for range 2 {
		if err := versions.Select(t.Context(), "v1.36.3"); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.Readlink(root.Path(linkDirectory + "/kubelet")); err != nil || got != "/opt/k8s/v1.36.3/kubelet" {
		t.Errorf("kubelet is linked to %q: %v", got, err)
	}
	err := versions.Select(t.Context(), "v1.37.0")
	wantUnavailable(t, err, "v1.35.4, v1.36.3", "/opt/k8s/v1.37.0")
}

func wantUnavailable(t *testing.T, err error, parts ...string) {
	t.Helper()
	if e := operation.AsError(err); e.Reason != "VersionUnavailable" || e.Retry != operation.RetryNever {
		t.Fatalf("error is %#v", err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q lacks %q", err, part)
		}
	}
}

func TestLinksComeBack(t *testing.T) {
	root := hostfs.Root(t.TempDir())
	for _, program := range linked {
		put(t, root.Path("/opt/k8s/v1.36.3/"+program), "")
	}
	versions := Versions{Root: root, Directories: []string{"/opt/k8s"}, Runner: path{}}
	if err := replaceLink(root, "kubelet", "/opt/k8s/v1.35.4/kubelet"); err != nil {
		t.Fatal(err)
	}
	before, err := versions.Links()
	if err != nil {
		t.Fatal(err)
	}
	if err := versions.Select(t.Context(), "v1.36.3"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(ChangedLinks(root, before), " "); got != "kubeadm kubectl kubelet" {
		t.Errorf("changed are %q", got)
	}
	for range 2 {
		if err := RestoreLinks(root, before); err != nil {
			t.Fatal(err)
		}
	}
	after, err := versions.Links()
	if err != nil || after["kubelet"] != "/opt/k8s/v1.35.4/kubelet" || after["kubeadm"] != "" {
		t.Errorf("links are %v: %v", after, err)
	}
	if _, err := os.Lstat(root.Path(linkDirectory + "/kubeadm")); err == nil {
		t.Error("a link that was not there before is left")
	}
	if err := RestoreLinks(root, nil); err != nil {
		t.Error(err)
	}
}

func TestProgramsThatCannotBeSwitchedAreRefused(t *testing.T) {
	root := hostfs.Root(t.TempDir())
	put(t, root.Path("/opt/k8s/v1.36.3/kubelet"), "")
	put(t, root.Path("/opt/k8s/v1.36.3/kubeadm"), "")
	put(t, root.Path(linkDirectory+"/kubelet"), "the operator's own")
	versions := Versions{Root: root, Directories: []string{"/opt/k8s"}, Runner: path{}}
	_, err := versions.Links()
	wantUnavailable(t, err, "/usr/local/bin/kubelet is not a link")

	for unit, refused := range map[string]bool{
		"[Service]\nExecStart=/usr/bin/kubelet $X\n":                                                           true,
		"[Service]\nExecStart=-/usr/bin/kubelet\n# drop-in\nExecStart=\nExecStart=/usr/local/bin/kubelet $X\n": false,
		"[Service]\nExecStart=kubelet\n":                                                                       false,
		"":                                                                                                     false,
	} {
		versions.Runner = path{"systemctl": unit}
		err := versions.Check(t.Context(), "v1.36.3")
		if !refused && err != nil {
			t.Errorf("unit %q: %v", unit, err)
		}
		if refused {
			wantUnavailable(t, err, "/usr/bin/kubelet", "ExecStart=", "/usr/local/bin/kubelet")
		}
	}
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
