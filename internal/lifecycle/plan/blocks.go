package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// Blocks says whether a run holds its hook back now, and what people should know about
// it: which step of which policy, since when, and what to do. The message changes
// with the run, and that of a closed window with its next opening. A run in mode Audit, a cancelled one, and one of a hook that Cluster API
// does not wait for, block nothing.
func Blocks(run *lifecyclev1.LifecycleRun, now time.Time) (bool, string) {
	if run.Spec.Mode == lifecyclev1.ModeAudit || !run.Spec.Hook.Blocking() || run.Spec.Cancelled != "" {
		return false, ""
	}
	current := Current(run)
	if current != nil {
		return true, fmt.Sprintf("LifecyclePolicy %s, step %s: %s", run.Spec.PolicyName, current.Name, Explain(run))
	}
	return lapsed(run, now)
}

// lapsed finds a step that was done and is so no more, such as a window that has closed: it must be
// open when the hook passes, unless somebody skips it. One that cannot be read holds the
// hook back.
func lapsed(run *lifecyclev1.LifecycleRun, now time.Time) (bool, string) {
	for i := range run.Spec.Steps {
		s := &run.Spec.Steps[i]
		if !lasts(run, s) {
			continue
		}
		where := fmt.Sprintf("LifecyclePolicy %s, step %s: ", run.Spec.PolicyName, s.Name)
		lasting, err := step.FactsOf(s).Lasting(now)
		if err != nil {
			return true, where + err.Error() + "; correct the policy"
		}
		if !lasting.Holds {
			return true, fmt.Sprintf("%s%s; to go on without, %s", where, lasting.Message, remedy(run, s, lifecyclev1.SkipAnnotation))
		}
	}
	return false, ""
}

// lasts says whether a step that was done, such as a window that was open when it was reached,
// must still be so when the hook passes.
func lasts(run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step) bool {
	progress := run.Progress(s.Name)
	return step.FactsOf(s).Lasting != nil && progress != nil && progress.Outcome == lifecyclev1.OutcomeSucceeded && step.DecisionsFor(run, s.Name).Skip == nil
}

// Explain tells what a run waits for, since when, and what to do; for one that has
// ended, how. It is for people, and the same until the run changes.
func Explain(run *lifecyclev1.LifecycleRun) string {
	switch Phase(run) {
	case lifecyclev1.RunCancelled:
		return "cancelled: " + run.Spec.Cancelled
	case lifecyclev1.RunSucceeded:
		return summary(run)
	case lifecyclev1.RunPending:
		return "not begun; if it stays so, see that slipway-lifecycle runs and that the Cluster is not paused"
	default:
		return explainStep(run, Current(run))
	}
}

// explainStep tells of a step that has not passed.
func explainStep(run *lifecyclev1.LifecycleRun, current *lifecyclev1.Step) string {
	progress := run.Progress(current.Name)
	if progress == nil {
		return "begins"
	}
	since, facts := " since "+clock(progress.StartTime.Time), step.FactsOf(current)
	switch {
	case progress.Outcome == lifecyclev1.OutcomeFailed:
		return fmt.Sprintf("failed at %s: %s; correct the cause and %s, or %s", clock(progress.EndTime.Time), brief(progress.Message),
			remedy(run, current, lifecyclev1.RetryAnnotation), remedy(run, current, lifecyclev1.SkipAnnotation))
	case progress.Failures > 0:
		return fmt.Sprintf("attempt %d failed at %s: %s; it is repeated; to go on without, %s", progress.Failures,
			clock(progress.LastFailureTime.Time), brief(progress.Message), remedy(run, current, lifecyclev1.SkipAnnotation))
	case facts.Approval != "":
		return fmt.Sprintf("waits%s %s; %s", since, facts.Approval, remedy(run, current, lifecyclev1.ApproveAnnotation))
	default:
		return fmt.Sprintf("%s%s%s; to go on without, %s", facts.Doing, since, seen(run, current), remedy(run, current, lifecyclev1.SkipAnnotation))
	}
}

// seen is what the last attempt reported. It is from the status, which may be lost.
func seen(run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step) string {
	if run.Status.Step != s.Name || run.Status.Report == "" {
		return ""
	}
	return ": " + brief(run.Status.Report)
}

// summary counts how the steps of a run ended.
func summary(run *lifecyclev1.LifecycleRun) string {
	count := map[lifecyclev1.StepOutcome]int{}
	for i := range run.Spec.Steps {
		if progress := run.Progress(run.Spec.Steps[i].Name); progress != nil {
			count[progress.Outcome]++
		}
	}
	text := fmt.Sprintf("%d of %d steps succeeded", count[lifecyclev1.OutcomeSucceeded], len(run.Spec.Steps))
	if n := count[lifecyclev1.OutcomeSkipped]; n > 0 {
		text += fmt.Sprintf(", %d skipped", n)
	}
	if n := count[lifecyclev1.OutcomeFailed]; n > 0 {
		text += fmt.Sprintf(", %d failed", n)
	}
	return text
}

// remedy is the command of a decision. It works wherever the run can be read.
func remedy(run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step, annotation string) string {
	return fmt.Sprintf("kubectl annotate lifecyclerun -n %s %s %s=%s", run.Namespace, run.Name, annotation, s.Name)
}

// brief leaves room for what to do about it.
func brief(message string) string { return step.Cut(message, 1024) }

// clock writes a time for people: to the second, in UTC.
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Holds is Blocks for who is not asked by Cluster API: the windows of a run that has
// succeeded matter only until its hook has passed. Changes is when the answer changes
// by itself, because a window opens or closes; zero when it does not.
func Holds(run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster, now time.Time) (holds bool, message string, changes time.Time) {
	if Phase(run) == lifecyclev1.RunSucceeded && !asked(run, cluster) {
		return false, "", time.Time{}
	}
	holds, message = Blocks(run, now)
	if Current(run) == nil {
		changes = nextChange(run, now)
	}
	return holds, message, changes
}

// Wait is why somebody has to know of a run: it holds its Cluster back, or it failed where nothing
// waits for it.
type Wait struct {
	// Blocks says that the run holds its Cluster back.
	Blocks bool
	// Failed says that one of its steps has failed.
	Failed bool
	// Message begins with the hook, and says which step waits or failed, since when, and what to do.
	Message string
}

// WaitOf returns why somebody has to know of a run; nil when nobody has.
func WaitOf(run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster, now time.Time) *Wait {
	blocks, message, _ := Holds(run, cluster, now)
	failed := Phase(run) == lifecyclev1.RunFailed && run.Spec.Mode != lifecyclev1.ModeAudit
	switch {
	case !blocks && !failed:
		return nil
	case !blocks:
		message = Explain(run)
	}
	return &Wait{Blocks: blocks, Failed: failed, Message: string(run.Spec.Hook) + ": " + message}
}

// Open says whether a policy still has a say about a run: its steps have not all passed,
// or a window that has closed keeps its hook from passing.
func Open(run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster, now time.Time) bool {
	if !Finished(run) {
		return true
	}
	holds, _, _ := Holds(run, cluster, now)
	return holds
}

// Settled says whether nothing will happen in a run any more, as far as its Cluster tells.
func Settled(run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster, now time.Time) bool {
	if !Finished(run) {
		return false
	}
	holds, _, changes := Holds(run, cluster, now)
	return !holds && (run.Spec.Cancelled != "" || changes.IsZero() && calledOff(run, cluster) == "" && withdrawn(run, cluster) == "")
}

// asked says whether Cluster API goes on asking the hook of a run. It is read from
// where Cluster API itself keeps it in mind.
func asked(run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster) bool {
	if Asks(run.Spec.Hook, cluster) {
		return true
	}
	// Without a topology, a deletion that has begun has passed.
	if !cluster.Spec.Topology.IsDefined() && !cluster.DeletionTimestamp.IsZero() {
		return false
	}
	if deleting := !cluster.DeletionTimestamp.IsZero(); deleting || run.Spec.Hook == lifecyclev1.BeforeClusterDelete {
		_, passed := cluster.Annotations[runtimev1.OkToDeleteAnnotation]
		return deleting && run.Spec.Hook == lifecyclev1.BeforeClusterDelete && !passed
	}
	switch run.Spec.Hook {
	case lifecyclev1.BeforeClusterCreate:
		return !cluster.Spec.InfrastructureRef.IsDefined() && !cluster.Spec.ControlPlaneRef.IsDefined()
	case lifecyclev1.BeforeClusterUpgrade:
		return planned(run, cluster) && !tracked(lifecyclev1.AfterClusterUpgrade, cluster)
	case lifecyclev1.BeforeControlPlaneUpgrade:
		return planned(run, cluster)
	default:
		return tracked(run.Spec.Hook, cluster)
	}
}

// planned says whether the control plane is still to get the version of a run.
func planned(run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster) bool {
	return cluster.Status.ControlPlane != nil && slices.ContainsFunc(cluster.Status.ControlPlane.UpgradePlan, func(v clusterv1.StatusUpgradePlanVersion) bool {
		return v.Version == run.Spec.Request.ToKubernetesVersion
	})
}

// tracked says whether Cluster API intends to call a hook, or goes on calling it.
func tracked(hook lifecyclev1.HookName, cluster *clusterv1.Cluster) bool {
	return slices.Contains(strings.Split(cluster.Annotations[runtimev1.PendingHooksAnnotation], ","), string(hook))
}

// nextChange is when something that must last changes first, such as a window that opens or
// closes; zero for never.
func nextChange(run *lifecyclev1.LifecycleRun, now time.Time) time.Time {
	var first time.Time
	for i := range run.Spec.Steps {
		s := &run.Spec.Steps[i]
		if !lasts(run, s) {
			continue
		}
		lasting, err := step.FactsOf(s).Lasting(now)
		if err == nil && !lasting.Changes.IsZero() && (first.IsZero() || lasting.Changes.Before(first)) {
			first = lasting.Changes
		}
	}
	return first
}
