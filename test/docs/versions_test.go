package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/slipway-dev/slipway/internal/testenv/versions"
)

// The tables of docs/versions.md, and the version of the default cluster, are those of the modules
// that are built.
func TestVersionsReference(t *testing.T) {
	plane := versions.Plane()
	var hosts []string
	var table strings.Builder
	for _, k := range slices.Backward(versions.All()) {
		minor := strings.TrimPrefix(semver.MajorMinor(k.Version), "v")
		hosts = append(hosts, k.Version)
		page := "–"
		if _, err := os.Stat(filepath.Join(root, "docs/versions", minor+".md")); err == nil {
			page = fmt.Sprintf("[since %s](versions/%s.md)", before(k), minor)
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", k.Version, k.Etcd, k.CoreDNS, page)
	}
	compareTable(t, "docs/versions.md", "| Kubernetes | etcd | CoreDNS | what changed |\n|---|---|---|---|\n", table.String())

	data, err := os.ReadFile(filepath.Join(root, "docs/versions.md"))
	if err != nil {
		t.Fatal(err)
	}
	for head, version := range map[string]string{
		"| Cluster API that this release is built for and tested with |":              required(t, "sigs.k8s.io/cluster-api"),
		"| Kubernetes of the plane of `slipway up`, and of its clusters by default |": plane.Version,
		"| Kubernetes of local hosts |":                                               strings.Join(hosts, ", "),
	} {
		before, rest, found := strings.Cut(string(data), head)
		_, after, _ := strings.Cut(rest, "\n")
		if !found {
			t.Fatalf("docs/versions.md has no row %s", head)
		}
		data = []byte(before + head + " " + version + " |\n" + after)
	}
	compare(t, "docs/versions.md", data)
	cluster, err := os.ReadFile(filepath.Join(root, "templates/local/cluster.yaml"))
	if err != nil || !strings.Contains(string(cluster), "\n    version: "+plane.Version+"\n") {
		t.Errorf("templates/local/cluster.yaml is not of %s: %v", plane.Version, err)
	}
}

// before is the minor version before that of k.
func before(k versions.Kubernetes) string {
	var minor int
	if _, err := fmt.Sscanf(semver.MajorMinor(k.Version), "v1.%d", &minor); err != nil {
		return ""
	}
	return fmt.Sprintf("1.%d", minor-1)
}

func required(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	module, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range module.Require {
		if r.Mod.Path == path {
			return r.Mod.Version
		}
	}
	t.Fatalf("go.mod does not require %s", path)
	return ""
}
