package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/console/view"
	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/runs"
)

const decidePattern = "/runs/{namespace}/{name}/decide"

func (s *server) decisions(v *visit) (string, any, error) {
	return "Decisions", view.DecisionsOf(runs.Everywhere(v.o.Clusters, slices.Clone(v.o.LifecycleRuns), s.now()), v.o, v.states), nil
}

func (s *server) run(v *visit) (string, any, error) {
	key := keyOf(v.Request)
	run := &lifecyclev1.LifecycleRun{}
	if err := v.read.Get(v.Context(), key, run); err != nil {
		return "", nil, fmt.Errorf("LifecycleRun %s: %w", key, err)
	}
	cluster := &clusterv1.Cluster{}
	of := client.ObjectKey{Namespace: key.Namespace, Name: run.Spec.ClusterName}
	if err := v.read.Get(v.Context(), of, cluster); err != nil {
		return "", nil, fmt.Errorf("cluster %s: %w", of, err)
	}
	return string(run.Spec.Hook) + " of " + of.Name, view.RunOf(of.Namespace, of.Name, runs.RunOf(run, cluster, s.now())), nil
}

// jobLog is what the Jobs of a step wrote.
type jobLog struct {
	Namespace, Name, Step string
	Text                  string
	// Failure says why there is nothing.
	Failure string
	Command string
}

// jobLog shows what was kept of the Jobs of a step. It is read for this page alone, by the user's own client: the
// logs are in Secrets.
func (s *server) jobLog(v *visit) (string, any, error) {
	key, of := keyOf(v.Request), v.PathValue("step")
	run := &lifecyclev1.LifecycleRun{}
	if err := v.read.Get(v.Context(), key, run); err != nil {
		return "", nil, fmt.Errorf("LifecycleRun %s: %w", key, err)
	}
	page := jobLog{Namespace: key.Namespace, Name: key.Name, Step: of, Command: fmt.Sprintf("slipway lifecycle logs %s %s -n %s", key.Name, of, key.Namespace)}
	var text strings.Builder
	if err := runs.Logs(v.Context(), s.Client, run, of, &text); err != nil {
		page.Failure = s.Explain(err).Error()
	}
	page.Text = display.Visible(text.String())
	return "Log of step " + of, page, nil
}

// decision is a form that somebody fills in.
type decision struct {
	view.Run
	Decision lifecyclev1.DecisionType
	Step     string
	Reason   string
	// NeedsReason of those that leave out or repeat what a policy asks for.
	NeedsReason bool
}

func (s *server) deciding(v *visit) (string, any, error) {
	title, shown, err := s.run(v)
	if err != nil {
		return title, nil, err
	}
	d := decisionOf(v.Request)
	d.Run = shown.(view.Run)
	return fmt.Sprintf("%s step %s", d.Decision, d.Step), d, nil
}

func decisionOf(r *http.Request) decision {
	kind := lifecyclev1.DecisionType(r.FormValue("decision"))
	return decision{Decision: kind, Step: r.FormValue("step"), Reason: strings.TrimSpace(r.FormValue("reason")), NeedsReason: kind != lifecyclev1.DecisionApprove}
}

// decide records a decision, with the rights of the user.
func (s *server) decide(w http.ResponseWriter, r *http.Request) {
	d, key := decisionOf(r), keyOf(r)
	code, err := s.record(r.Context(), key, d)
	if err != nil {
		s.answer(w, r, pageFor(decidePattern), code, s.Explain(err).Error())
		return
	}
	back := url.URL{Path: "/runs/" + key.Namespace + "/" + key.Name}
	http.Redirect(w, r, back.String(), http.StatusSeeOther)
}

func (s *server) record(ctx context.Context, key client.ObjectKey, d decision) (int, error) {
	switch d.Decision {
	case lifecyclev1.DecisionApprove, lifecyclev1.DecisionSkip, lifecyclev1.DecisionRetry:
	default:
		return http.StatusBadRequest, fmt.Errorf("%q is no decision: want Approve, Skip or Retry", d.Decision)
	}
	if d.NeedsReason && d.Reason == "" {
		return http.StatusBadRequest, errors.New("say why: the reason is recorded")
	}
	// The user's own client asks the API server, not what was seen before.
	run, err := runs.Find(ctx, s.Client, key)
	if err != nil {
		return statusOf(err), err
	}
	if run == nil || run.Step(d.Step) == nil {
		return http.StatusNotFound, fmt.Errorf("there is no LifecycleRun %s with a step %q", key, d.Step)
	}
	if _, err := runs.Decide(ctx, s.Client, run, d.Decision, d.Step, d.Reason); err != nil {
		return statusOf(err), err
	}
	return http.StatusOK, nil
}

func pageFor(pattern string) page {
	for _, p := range pages {
		if p.pattern == pattern {
			return p
		}
	}
	return page{template: "error", still: true}
}
