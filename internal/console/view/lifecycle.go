package view

import (
	"cmp"
	"net/url"
	"slices"
	"time"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/runs"
	"github.com/slipway-dev/slipway/internal/status"
)

// Decisions are what waits for a person or a window: runs of lifecycle policies, hosts to approve,
// and what somebody paused long ago.
type Decisions struct {
	// Waiting are runs that wait or failed; Others are the other ones.
	Waiting, Others []Run
	// Troubles are decisions about anything else.
	Troubles []Trouble
	// More is how many of the others are left out, the oldest.
	More int
}

// Run is a run with the step that it is at.
type Run struct {
	Namespace, Cluster string
	runs.Run
	// At is the step that waits or failed; nil when there is none.
	At *runs.Step
	// Since is when that step began.
	Since time.Time
	// Decisions that a person may take about it now.
	Choices []Choice
}

// Choice is a decision that makes sense.
type Choice struct {
	Decision lifecyclev1.DecisionType
	Step     string
	// Page of its form.
	Page string
}

// DecisionsOf shows what each cluster's policies do, and which other decisions are waited for.
func DecisionsOf(explained []runs.Explanation, o *doctor.Snapshot, states *status.States) Decisions {
	var l Decisions
	all, _ := TroublesOf(states.Findings(), o)
	for _, t := range all {
		if t.Role == status.Wait && t.Object.Kind != "LifecycleRun" {
			l.Troubles = append(l.Troubles, t)
		}
	}
	for i := range explained {
		for _, r := range explained[i].Runs {
			run := RunOf(explained[i].Namespace, explained[i].Cluster, r)
			if run.Blocks || run.Phase == lifecyclev1.RunFailed || run.Phase == lifecyclev1.RunWaiting {
				l.Waiting = append(l.Waiting, run)
			} else {
				l.Others = append(l.Others, run)
			}
		}
	}
	// Who waits longest comes first.
	slices.SortStableFunc(l.Waiting, func(a, b Run) int {
		return cmp.Or(cmp.Compare(one(a.Since.IsZero()), one(b.Since.IsZero())), a.Since.Compare(b.Since))
	})
	if l.More = len(l.Others) - PageSize; l.More > 0 {
		l.Others = l.Others[:PageSize]
	}
	l.More = max(l.More, 0)
	return l
}

// RunOf shows a run of a cluster.
func RunOf(namespace, cluster string, r runs.Run) Run {
	v := Run{Namespace: namespace, Cluster: cluster, Run: r}
	i := slices.IndexFunc(r.Steps, func(s runs.Step) bool { return s.Name == r.Current })
	if i < 0 {
		return v
	}
	v.At = &r.Steps[i]
	if v.At.Since != nil {
		v.Since = *v.At.Since
	}
	switch {
	case r.Phase == lifecyclev1.RunFailed:
		v.choose(lifecyclev1.DecisionRetry)
	case v.At.Kind == step.Approval && r.Phase == lifecyclev1.RunWaiting:
		v.choose(lifecyclev1.DecisionApprove)
	}
	v.choose(lifecyclev1.DecisionSkip)
	return v
}

// choose adds a decision about the current step.
func (r *Run) choose(decision lifecyclev1.DecisionType) {
	form := url.URL{Path: PageOf("LifecycleRun", r.Namespace, r.Name, "") + "/decide", RawQuery: url.Values{"decision": {string(decision)}, "step": {r.Current}}.Encode()}
	r.Choices = append(r.Choices, Choice{decision, r.Current, form.String()})
}
