package imports

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// workspace are the modules that go.work compiles with one version of each
// dependency, the Kubernetes of the plane among them.
var workspace = []string{"go.mod", "plane/go.mod", "sdk/go.mod", "nodebundle/kubernetes/go.mod"}

// paired are the requirements of the node bundle's other programs that share packages with the
// workspace, each with the modules of which they have a version of their own: the one that kubeadm
// pairs with a Kubernetes.
var paired = map[string]*regexp.Regexp{
	"nodebundle/go.mod":                   regexp.MustCompile(`^go\.etcd\.io/`),
	"nodebundle/kubernetes-*.mod":         regexp.MustCompile(`^go\.etcd\.io/`),
	"nodebundle/network/go.mod":           regexp.MustCompile(`^github\.com/(coredns|flannel-io)/`),
	"nodebundle/network/kubernetes-*.mod": regexp.MustCompile(`^github\.com/coredns/`),
}

// An older version of one dependency compiles all that is above it a second time:
// that was a third of a cold build.
func TestOneGraph(t *testing.T) {
	selected := map[string]string{}
	for _, file := range workspace {
		for path, version := range requirements(t, file) {
			if semver.Compare(version, selected[path]) > 0 {
				selected[path] = version
			}
		}
	}
	for pattern, own := range paired {
		files, err := filepath.Glob("../../" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, file := range files {
			file := strings.TrimPrefix(file, "../../")
			for path, version := range requirements(t, file) {
				if !own.MatchString(path) && semver.Compare(selected[path], version) > 0 {
					t.Errorf("%s requires %s %s, the workspace selects %s: go get -modfile=%s %s@%s",
						file, path, version, selected[path], filepath.Base(file), path, selected[path])
				}
			}
		}
	}
}

func requirements(t *testing.T, file string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	module, err := modfile.Parse(file, content, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, r := range module.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	return versions
}

// The libraries that verify upstream's signatures are many, and raise versions of others: they are
// for slipway-bundle alone.
func TestSignaturesAreOfOneProgram(t *testing.T) {
	files, err := filepath.Glob("../../*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../../*/*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range append(append(files, more...), "../../go.mod") {
		file, err := filepath.Rel("../..", file)
		if err != nil {
			t.Fatal(err)
		}
		for path := range requirements(t, file) {
			if !strings.HasPrefix(path, "github.com/sigstore/") {
				continue
			}
			if found++; file != "cmd/slipway-bundle/go.mod" {
				t.Errorf("%s requires %s", file, path)
			}
		}
	}
	if found == 0 {
		t.Error("slipway-bundle verifies no signatures")
	}
}
