package clusterctl

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// flavors of our templates; "" is the default.
var flavors = []string{"", "machinepool", "ha", "external-endpoint", "clusterclass"}

func TestRepositories(t *testing.T) {
	begin(t, 0)
	u := newUser(t, shared.repository)
	if out := u.run("config", "repositories"); !strings.Contains(out, "slipway") {
		t.Errorf("clusterctl does not know the provider:\n%s", out)
	}
}

// Our own linter has nothing to say about our release.
func TestOwnCheck(t *testing.T) {
	begin(t, 0)
	for _, version := range []string{oldVersion, newVersion} {
		for _, label := range []string{"infrastructure-slipway", "runtime-extension-slipway-lifecycle"} {
			dir := filepath.Join(shared.repository, label, version)
			if out, err := exec.Command(shared.slipway, "check", "provider", dir, "--strict").CombinedOutput(); err != nil {
				t.Errorf("slipway check provider %s %s: %v\n%s", label, version, err, out)
			}
		}
	}
}

func TestComponents(t *testing.T) {
	begin(t, 0)
	u := newUser(t, shared.repository)
	u.env = []string{"SLIPWAY_LOG_LEVEL=4"}
	components := u.run("generate", "provider", "--infrastructure", "slipway", "--target-namespace", "elsewhere")
	for _, want := range []string{
		"--v=4", "--logging-format=json", // a variable and a default
		"name: manager", "clusterctl.cluster.x-k8s.io: \"\"", "cluster.x-k8s.io/provider: infrastructure-slipway",
		"image: ghcr.io/slipway-dev/slipway-manager:" + oldVersion,
		"cert-manager.io/inject-ca-from: elsewhere/slipway-serving-cert",
		"slipway-webhook-service.elsewhere.svc",
	} {
		if !strings.Contains(components, want) {
			t.Errorf("the components lack %q", want)
		}
	}
	if strings.Contains(components, "slipway-system") {
		t.Error("something stays in slipway-system when the user names another namespace")
	}
}

// The documentation lists the variables that clusterctl finds.
func TestVariables(t *testing.T) {
	begin(t, 0)
	docs, err := os.ReadFile(filepath.Join(shared.root, "docs", "clusterctl.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, flavor := range flavors {
		t.Run("flavor "+flavor, func(t *testing.T) {
			u := newUser(t, shared.repository)
			listed := u.run("generate", "cluster", "demo", "--target-namespace", "default", "--infrastructure", "slipway:"+oldVersion, "--flavor", flavor, "--list-variables")
			var names []string
			for _, field := range strings.Fields(listed) {
				if strings.HasPrefix(field, "SLIPWAY_") || field == "KUBERNETES_VERSION" {
					names = append(names, field)
				}
			}
			if !slices.Contains(names, "SLIPWAY_CONTROL_PLANE_ENDPOINT_HOST") {
				t.Errorf("clusterctl lists %v", names)
			}
			for _, name := range names {
				if !strings.Contains(string(docs), "`"+name+"`") {
					t.Errorf("docs/clusterctl.md lacks %s", name)
				}
			}
		})
	}
}

func TestMissingVariable(t *testing.T) {
	begin(t, 0)
	u := newUser(t, shared.repository)
	u.refused("SLIPWAY_CONTROL_PLANE_ENDPOINT_HOST", "generate", "cluster", "demo", "--target-namespace", "default",
		"--infrastructure", "slipway:"+oldVersion, "--kubernetes-version", "v1.36.3", "--flavor", "machinepool")
}

// spoiled is a copy of the repository with one file of ours changed.
func spoiled(t *testing.T, file, old, changed string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(shared.repository)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "infrastructure-slipway", oldVersion, file)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), old) {
		t.Fatalf("%s lacks %q", file, old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), old, changed, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTwoNamespaces(t *testing.T) {
	begin(t, 0)
	repository := spoiled(t, "infrastructure-components.yaml", "---\n", "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: another\n---\n")
	newUser(t, repository).refused("no more than one resource with Kind Namespace", "generate", "provider", "--infrastructure", "slipway")
}

func TestDirectoryIsNoVersion(t *testing.T) {
	begin(t, 0)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(shared.repository)); err != nil {
		t.Fatal(err)
	}
	ours := filepath.Join(dir, "infrastructure-slipway")
	if err := os.Rename(filepath.Join(ours, oldVersion), filepath.Join(ours, "release-1")); err != nil {
		t.Fatal(err)
	}
	u := newUser(t, dir)
	config := u.config()
	data, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(strings.Replace(string(data), oldVersion+"/infra", "release-1/infra", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	u.refused("version", "generate", "provider", "--infrastructure", "slipway")
}
