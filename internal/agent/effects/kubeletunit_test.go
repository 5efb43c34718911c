package effects_test

import (
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// TestNodeComesBackAfterAPowerCut holds that the kubelet of a node starts at boot, and
// that a reset leaves its unit as it was.
func TestNodeComesBackAfterAPowerCut(t *testing.T) {
	for state, want := range map[string]struct {
		enabled int
		reason  string
	}{
		"enabled\n": {}, "disabled\n": {enabled: 1}, "enabled-runtime\n": {enabled: 1}, "static\n": {}, "": {},
		"masked\n": {reason: "KubeletMasked"},
	} {
		t.Run(state, func(t *testing.T) {
			h, p := fakehost.New(t), newRecord(t)
			h.Programs.Answer = map[string]string{"systemctl is-enabled kubelet": state}
			err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{Data: []byte("#cloud-config\n")}, p)
			if want.reason != "" {
				if e := operation.AsError(err); err == nil || e.Reason != want.reason {
					t.Fatalf("got %v, want reason %s", err, want.reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := h.Programs.RanPrefix("systemctl enable kubelet"); got != want.enabled {
				t.Errorf("enabled %d times, want %d", got, want.enabled)
			}
			if err := h.Executor.Reset(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if got := h.Programs.RanPrefix("systemctl disable kubelet"); got != want.enabled {
				t.Errorf("disabled %d times, want %d", got, want.enabled)
			}
		})
	}
}
