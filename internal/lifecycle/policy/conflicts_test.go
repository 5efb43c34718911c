package policy_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/policy"
)

// TestRareWindowDoesNotConflictWithItself holds that a window of 29 February, which schedule
// accepts, is no conflict with itself nor with one that opens every night, and is one with a
// window of another hour.
func TestRareWindowDoesNotConflictWithItself(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	of := func(name string, schedules ...string) *lifecyclev1.LifecyclePolicy {
		p := &lifecyclev1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		hook := lifecyclev1.HookPolicy{Hook: lifecyclev1.BeforeClusterUpgrade}
		for _, schedule := range schedules {
			hook.Steps = append(hook.Steps, lifecyclev1.Step{Name: name, Window: &lifecyclev1.WindowStep{Schedule: schedule, DurationSeconds: 3600}})
		}
		p.Spec.Hooks = append(p.Spec.Hooks, hook)
		return p
	}
	leap := of("leap", "0 1 29 2 *")
	for _, other := range []*lifecyclev1.LifecyclePolicy{leap, of("again", "0 1 29 2 *"), of("night", "0 1 * * *")} {
		if message := policy.Conflict(leap, other, nil, now); message != "" {
			t.Errorf("%s: %s", other.Name, message)
		}
	}
	if message := policy.Conflict(leap, of("noon", "0 12 * * *"), nil, now); !strings.Contains(message, "noon") {
		t.Errorf("at another hour: %q", message)
	}
}
