package step

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

func TestNamesOfStepsAreLabelsAndDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, run := range []string{"a", strings.Repeat("r", 62), strings.Repeat("r", 63), strings.Repeat("r", 63) + "x"} {
		for attempt := range int32(3) {
			for _, suffix := range []string{"", "0", "1"} {
				r := &lifecyclev1.LifecycleRun{ObjectMeta: metav1.ObjectMeta{Name: run}}
				name := Name(r, lifecyclev1.StepProgress{Name: "conformance", Attempt: attempt}, suffix)
				if errs := validation.IsDNS1123Label(name); errs != nil {
					t.Errorf("%q: %v", name, errs)
				}
				if other, taken := seen[name]; taken {
					t.Errorf("%q is the name for %s and %s", name, other, run)
				}
				seen[name] = run
			}
		}
	}
}

// Objects under these names exist in management clusters: a name that changes makes a second run,
// Job or archive beside the first.
func TestNamesStayAsTheyAre(t *testing.T) {
	long := strings.Repeat("r", 70)
	name := func(run, suffix string) string {
		return Name(&lifecyclev1.LifecycleRun{ObjectMeta: metav1.ObjectMeta{Name: run}}, lifecyclev1.StepProgress{Name: "smoke", Attempt: 2}, suffix)
	}
	labels := Labels(&lifecyclev1.LifecycleRun{
		ObjectMeta: metav1.ObjectMeta{Name: long}, Spec: lifecyclev1.LifecycleRunSpec{ClusterName: "prod", PolicyName: long + "p", Hook: lifecyclev1.BeforeClusterDelete},
	}, "smoke")
	shortened := strings.Repeat("r", 52) + "-"
	for _, c := range []struct{ got, want string }{
		{name("edge", ""), "edge-smoke-r2"},
		{name("edge", "0"), "edge-smoke-r2-0"},
		{name(long, ""), shortened + "b26be55547"},
		{name(long, "0"), shortened + "b15fc47510"},
		{labels[lifecyclev1.RunLabel], shortened + "8e08f5fcab"},
		{labels[lifecyclev1.PolicyLabel], shortened + "af9f20e0ae"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// Archives of these names and digests exist in management clusters.
func TestNamesOfArchivesStayAsTheyAre(t *testing.T) {
	input := func(run, namespace string) Input {
		return Input{
			Run:      &lifecyclev1.LifecycleRun{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: run}},
			Step:     &lifecyclev1.Step{Name: "save", Export: &lifecyclev1.ExportStep{Namespace: namespace}},
			Progress: lifecyclev1.StepProgress{Name: "save", StartTime: metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))},
		}
	}
	for _, c := range []struct{ got, want string }{
		{archiveName(input("edge-1", "")), "edge-1-save-20260301120000"},
		{archiveName(input("edge-1", "archives")), "edge-1-save-20260301120000-96c2886c"},
		{archiveName(input(strings.Repeat("r", 240), "archives")), "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr-3d4722fde7"},
		{ArchiveDigest([]byte("a")), "sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// An archive with a longer name of a file cannot be extracted.
func TestFilesOfArchivesHaveNamesOfFiles(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"a", "1234", "a.b", strings.Repeat("a", 250), strings.Repeat("a", 251), strings.Repeat("a", 252), strings.Repeat("a", 253), strings.Repeat("b.", 126) + "b"} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name}}}
		file := strings.TrimPrefix(archivePath(o), "cluster/node/")
		if other, taken := seen[file]; taken || len(file) > 255 || len(name) <= 250 && file != name+".yaml" {
			t.Errorf("%s, and %s, in %s with %d characters", name, other, file, len(file))
		}
		seen[file] = name
	}
}
