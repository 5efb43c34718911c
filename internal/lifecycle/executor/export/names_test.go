package export

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// Archives of these names and digests exist in management clusters.
func TestNamesOfArchivesStayAsTheyAre(t *testing.T) {
	input := func(run, namespace string) step.Input {
		return step.Input{
			Run:      &lifecyclev1.LifecycleRun{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: run}},
			Step:     &lifecyclev1.Step{Name: "save", Export: &lifecyclev1.ExportStep{Namespace: namespace}},
			Progress: lifecyclev1.StepProgress{Name: "save", StartTime: metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))},
		}
	}
	for _, c := range []struct{ got, want string }{
		{nameOf(input("edge-1", "")), "edge-1-save-20260301120000"},
		{nameOf(input("edge-1", "archives")), "edge-1-save-20260301120000-96c2886c"},
		{nameOf(input(strings.Repeat("r", 240), "archives")), "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr-3d4722fde7"},
		{Digest([]byte("a")), "sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
