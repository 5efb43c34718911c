package plan

import (
	"fmt"
	"strings"
	"time"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/schedule"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// Blocks says whether a run holds its hook back now, and what people should know about
// it: which step of which policy, since when, and what to do. The message changes
// with the run, and that of a closed window with its next opening. A run in mode Audit, a cancelled one, and one of a hook that Cluster API
// does not wait for, hold back nothing.
func Blocks(run *lifecyclev1.LifecycleRun, now time.Time) (bool, string) {
	if run.Spec.Mode == lifecyclev1.ModeAudit || !run.Spec.Hook.Blocking() || run.Spec.Cancelled != "" {
		return false, ""
	}
	current := Current(run)
	if current != nil {
		return true, fmt.Sprintf("LifecyclePolicy %s, step %s: %s", run.Spec.PolicyName, current.Name, Explain(run))
	}
	return closedWindow(run, now)
}

// closedWindow finds a window that has closed since its step was reached: it must be
// open when the hook passes, unless somebody skips it. One that cannot be read holds the
// hook back.
func closedWindow(run *lifecyclev1.LifecycleRun, now time.Time) (bool, string) {
	for i := range run.Spec.Steps {
		s := &run.Spec.Steps[i]
		if !inWindow(run, s) {
			continue
		}
		where := fmt.Sprintf("LifecyclePolicy %s, step %s: ", run.Spec.PolicyName, s.Name)
		window, err := schedule.Parse(*s.Window)
		if err != nil {
			return true, where + err.Error() + "; correct the policy"
		}
		if open, opens := window.At(now); !open {
			return true, fmt.Sprintf("%sthe window closed before the other steps were done; it opens again at %s; to go on without, %s",
				where, clock(opens), remedy(run, s, lifecyclev1.SkipAnnotation))
		}
	}
	return false, ""
}

// inWindow says whether a step is a window that was open when it was reached, and must
// be when the hook passes.
func inWindow(run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step) bool {
	progress := run.Progress(s.Name)
	return s.Window != nil && progress != nil && progress.Outcome == lifecyclev1.OutcomeSucceeded && step.DecisionsFor(run, s.Name).Skip == nil
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
	since := " since " + clock(progress.StartTime.Time)
	switch {
	case progress.Outcome == lifecyclev1.OutcomeFailed:
		return fmt.Sprintf("failed at %s: %s; correct the cause and %s, or %s", clock(progress.EndTime.Time), brief(progress.Message),
			remedy(run, current, lifecyclev1.RetryAnnotation), remedy(run, current, lifecyclev1.SkipAnnotation))
	case progress.Failures > 0:
		return fmt.Sprintf("attempt %d failed at %s: %s; it is repeated; to go on without, %s", progress.Failures,
			clock(progress.LastFailureTime.Time), brief(progress.Message), remedy(run, current, lifecyclev1.SkipAnnotation))
	case current.Approval != nil:
		return fmt.Sprintf("waits%s for approval%s; %s", since, quoted(current.Approval.Message), remedy(run, current, lifecyclev1.ApproveAnnotation))
	default:
		return fmt.Sprintf("%s%s%s; to go on without, %s", doing(current), since, seen(run, current), remedy(run, current, lifecyclev1.SkipAnnotation))
	}
}

// doing tells what a step does, or waits for.
func doing(s *lifecyclev1.Step) string {
	switch {
	case s.Expression != nil && s.Expression.Message != "":
		return fmt.Sprintf("waits (%s)", s.Expression.Message)
	case s.Expression != nil:
		return fmt.Sprintf("waits until %s", oneLine(s.Expression.Expression))
	case s.Window != nil:
		zone := s.Window.TimeZone
		if zone == "" {
			zone = schedule.DefaultTimeZone
		}
		return fmt.Sprintf("waits for the window %q (%s)", s.Window.Schedule, zone)
	case s.Wait != nil && s.Wait.Message != "":
		return fmt.Sprintf("waits (%s)", s.Wait.Message)
	case s.Wait != nil:
		return fmt.Sprintf("waits for %s until %s", s.Wait.Kind, oneLine(s.Wait.Expression))
	case s.Apply != nil:
		return "applies manifests"
	case s.Job != nil:
		return "runs a Job"
	case s.Webhook != nil:
		return "calls " + host(s.Webhook.URL)
	default:
		return "exports objects"
	}
}

// host is what may be told of a URL.
func host(text string) string {
	u, err := step.ParseEndpoint(text)
	if err != nil {
		return "an endpoint"
	}
	return step.EndpointHost(u)
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

func quoted(message string) string {
	if message == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", message)
}

// brief leaves room for what to do about it.
func brief(message string) string { return cut(message, 1024) }

// oneLine keeps an expression short enough for a condition.
func oneLine(expression string) string {
	return cut(strings.Join(strings.Fields(expression), " "), 160)
}

// clock writes a time for people: to the second, in UTC.
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
