package manifests

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestConverted(t *testing.T) {
	kinds, err := converted(upstreamObjects(t))
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]bool{"v1beta1": true, "v1beta2": false, "v1": false} {
		if got := kinds[schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: version, Kind: "Machine"}]; got != want {
			t.Errorf("Machine %s is converted: %t, want %t", version, got, want)
		}
	}
}
