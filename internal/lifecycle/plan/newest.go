package plan

import (
	"k8s.io/apimachinery/pkg/types"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// Newest returns the last attempt among the runs that answer a call; nil when none does.
func Newest(runs []lifecyclev1.LifecycleRun, answers func(*lifecyclev1.LifecycleRun) bool) *lifecyclev1.LifecycleRun {
	var newest *lifecyclev1.LifecycleRun
	for i := range runs {
		if run := &runs[i]; answers(run) && (newest == nil || run.Spec.Attempt > newest.Spec.Attempt) {
			newest = run
		}
	}
	return newest
}

// Counts says whether a run speaks for its policy: it was not given up, and one that was
// only looked at does not stand for one that is to be executed.
func Counts(run *lifecyclev1.LifecycleRun, policy *lifecyclev1.LifecyclePolicy) bool {
	return run.Spec.Cancelled == "" && (run.Spec.Mode != lifecyclev1.ModeAudit || policy.Spec.Mode == lifecyclev1.ModeAudit)
}

// OwnerUID is the UID of the Cluster that owns a run; empty when none does.
func OwnerUID(run *lifecyclev1.LifecycleRun) types.UID {
	for _, owner := range run.OwnerReferences {
		if owner.Kind == "Cluster" && owner.Name == run.Spec.ClusterName {
			return owner.UID
		}
	}
	return ""
}
