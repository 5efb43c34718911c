package step

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/answer"
	"github.com/slipway-dev/slipway/internal/lifecycle/workload"
)

// Input is one attempt of one step. Kinds must not change what it points to.
type Input struct {
	// Env is what the step works with.
	Env *Env
	// Run that the step belongs to; its decisions and other steps can be read.
	Run *lifecyclev1.LifecycleRun
	// Step that is executed.
	Step *lifecyclev1.Step
	// Progress is the durable record of the step, as stored. StartTime is set.
	Progress lifecyclev1.StepProgress
	// Cluster of the run, as last seen, with its status.
	Cluster *clusterv1.Cluster
	// Now is the time of the attempt.
	Now time.Time
}

// Result is how an attempt went that did not fail.
type Result struct {
	// Done: the step has succeeded. Otherwise it waits.
	Done bool
	// Message tells what was done, or what the step waits for and what to do about
	// it. It is shown to everyone who may read the run: no secrets.
	Message string
	// After is the next poll if nothing happens; 0 for the controller's default.
	After time.Duration
	// Job is to be recorded, durably, before the next attempt.
	Job *lifecyclev1.JobReference
}

// Env is what steps work with.
type Env struct {
	// Cache lists Hosts and Clusters, of one namespace at a time.
	Cache client.Reader
	// Management is a client of the management cluster that reads Secrets, ConfigMaps, Jobs and
	// Pods from the API server, not from a cache.
	Management client.Client
	// Config is for the logs of Pods of the management cluster.
	Config *rest.Config
	// Workload has the clients of workload clusters.
	Workload workload.Clients
	// AllowedNetworks are those whose addresses endpoints may have besides public ones.
	// Addresses are held against them after name resolution.
	AllowedNetworks []netip.Prefix
	// UserAgent of calls to endpoints.
	UserAgent string
}

// Stopper is a Kind whose steps go on by themselves between attempts.
type Stopper interface {
	// Stop ends the remains of a step that is not executed again: it timed out, was
	// skipped, or its run was cancelled. It is called before the outcome is recorded,
	// again after a crash, and also when there is nothing to end. An error does not
	// keep the outcome from being recorded: it becomes part of the message.
	Stop(ctx context.Context, in Input) error
}

// Pinner is a Kind whose steps refer to content that others may change.
type Pinner interface {
	// Pin returns the digest of what the step refers to now; empty while some of it is
	// missing, or may not be read. Execute works only on content of the digest that the run has pinned.
	Pin(ctx context.Context, env *Env, run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step) (string, error)
}

// Trier is a Kind whose steps an API server validates without effect.
type Trier interface {
	// Try returns the faults that the API server finds. It makes nothing; what it tries is in
	// the namespace. at is the path of the step.
	Try(ctx context.Context, c client.Client, namespace string, s *lifecyclev1.Step, at *field.Path) (field.ErrorList, error)
}

// Warner is a Kind whose steps may do what their author does not mean.
type Warner interface {
	// Warnings tell it. They are about the field of the kind.
	Warnings(s *lifecyclev1.Step, now time.Time) []string
}

// TerminalError is a failure that no repetition repairs.
type TerminalError struct {
	// Remedy tells what to do.
	Remedy string
	// Err is what went wrong.
	Err error
}

// Error returns what went wrong and what to do.
func (e *TerminalError) Error() string {
	if e.Remedy == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v; %s", e.Err, e.Remedy)
}

// Unwrap returns what went wrong.
func (e *TerminalError) Unwrap() error { return e.Err }

// Terminal returns err as one that is not repeated.
func Terminal(err error, remedy string) error { return &TerminalError{Err: err, Remedy: remedy} }

// IsTerminal says whether err is, or wraps, a *TerminalError.
func IsTerminal(err error) bool {
	var terminal *TerminalError
	return errors.As(err, &terminal)
}

// IsUnreached says whether err tells that what a step works on was not reached, or was too
// busy to answer, so that nothing is known of it. Such an attempt is repeated for as
// long as the step's time lasts: an outage is no failure of the step. Errors say so by a
// method Unreached, those of API servers by their status.
func IsUnreached(err error) bool {
	var unreached interface{ Unreached() bool }
	if errors.As(err, &unreached) {
		return unreached.Unreached() && !IsTerminal(err)
	}
	return !IsTerminal(err) && answer.Away(err)
}

// Name returns the name of the nth object that a step creates: DNS-1123, at most 63
// characters, the same in every attempt.
func Name(run *lifecyclev1.LifecycleRun, progress lifecyclev1.StepProgress, suffix string) string {
	name := fmt.Sprintf("%s-%s", run.Name, progress.Name)
	if progress.Attempt > 0 {
		name = fmt.Sprintf("%s-r%d", name, progress.Attempt)
	}
	if suffix != "" {
		name += "-" + suffix
	}
	return Shorten(name, maxName)
}

// Decisions are what people decided about a step, as far as it still counts. Their
// times are for people: clocks jump, so only their order counts.
type Decisions struct {
	// Approve and Skip are the newest since the last Retry; nil when there is none.
	Approve, Skip *lifecyclev1.Decision
	// Retries is how often the step was started anew; see StepProgress.Attempt.
	Retries int32
	// Retry is the newest.
	Retry *lifecyclev1.Decision
}

// DecisionsFor returns what was decided about the step of that name.
func DecisionsFor(run *lifecyclev1.LifecycleRun, name string) Decisions {
	var d Decisions
	for i := range run.Spec.Decisions {
		decision := &run.Spec.Decisions[i]
		if decision.Step != name {
			continue
		}
		switch decision.Type {
		case lifecyclev1.DecisionApprove:
			d.Approve = decision
		case lifecyclev1.DecisionSkip:
			d.Skip = decision
		case lifecyclev1.DecisionRetry:
			d = Decisions{Retries: d.Retries + 1, Retry: decision}
		}
	}
	return d
}

const maxName = 63

// Shorten keeps names as they are up to the limit; of longer ones a hash of the whole replaces
// the end.
func Shorten(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:])[:10]
	return name[:limit-len(hash)-1] + "-" + hash
}

// Labels returns the labels of what a step creates: values that are too long for a
// label are shortened.
func Labels(run *lifecyclev1.LifecycleRun, step string) map[string]string {
	return map[string]string{
		clusterv1.ClusterNameLabel: Shorten(run.Spec.ClusterName, maxName),
		lifecyclev1.PolicyLabel:    Shorten(run.Spec.PolicyName, maxName),
		lifecyclev1.HookLabel:      string(run.Spec.Hook),
		lifecyclev1.RunLabel:       Shorten(run.Name, maxName),
		lifecyclev1.StepLabel:      step,
	}
}

// Cut shortens a text to a number of bytes, between two characters.
func Cut(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	const ellipsis = "…"
	end := max(0, longest-len(ellipsis))
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
