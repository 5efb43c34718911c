package step

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
)

// kinds are all kinds of steps, in the order of the API.
var kinds = []Kind{expressionKind{}, windowKind{}, approvalKind{}, applyKind{}, jobKind{}, webhookKind{}, waitKind{}, exportKind{}}

// Kind is all there is to know of a kind of step. There is nothing to embed: a kind that leaves a
// question open does not compile. All methods but Execute are pure.
type Kind interface {
	// Name is the field of the API, and the label of metrics.
	Name() string
	// Is says whether a step is of the kind.
	Is(s *lifecyclev1.Step) bool
	// Facts are the same for every attempt of a step.
	Facts(s *lifecyclev1.Step) Facts
	// Needs are what a step of a policy in a namespace needs. at is the path of the step.
	Needs(namespace string, s *lifecyclev1.Step, at *field.Path) Needs
	// Validate returns the faults that the CRD cannot find. at is the path of the step.
	Validate(s *lifecyclev1.Step, at *field.Path) field.ErrorList
	// Execute makes one attempt. It must be idempotent: an attempt can be cut off at
	// any point and is then repeated with the same Input.Progress, and everything it
	// creates has a name that follows from the run, the step and Progress.Attempt. It
	// may take as long as the step; what goes on by itself is looked at again later.
	// It returns soon after ctx has ended, and has done nothing more by then.
	//
	// With Run.Spec.Mode Audit it changes nothing and returns Done, with a Message
	// that tells what it would have done.
	//
	// An error is a failed attempt, which is repeated as the step's retry says. A
	// *TerminalError is not repeated, and one of which IsUnreached is true as long as the
	// step's time lasts. None contains secrets.
	Execute(ctx context.Context, in Input) (Result, error)
}

// Facts of a step.
type Facts struct {
	// Doing is what the step does or waits for, without secrets: "runs a Job".
	Doing string
	// Approval is what must be approved: "for approval (message)". Empty: nothing.
	Approval string
	// Limit is the default of timeoutSeconds; 0 for no limit.
	Limit time.Duration
	// Waits says that an attempt starts nothing. The run is in phase Waiting, and a last attempt
	// may succeed after the time limit.
	Waits bool
	// FollowsCluster says that every change of the Cluster is worth an attempt.
	FollowsCluster bool
	// Workload is the field by which the step works on the workload cluster: "apply". Empty: it
	// does not.
	Workload string
	// Lasting says whether what the step waited for is still so: it must be when the hook passes.
	// nil for a step that is done once and for all.
	Lasting func(now time.Time) (Lasting, error)
}

// Lasting is the state of what a step waited for, at a time.
type Lasting struct {
	// Holds says whether it is still so.
	Holds bool
	// Message says why it is not.
	Message string
	// Changes is when that changes by itself; zero for never.
	Changes time.Time
}

// Needs of a step.
type Needs struct {
	// Reads are ConfigMaps and Secrets of the policy's namespace.
	Reads []Reference
	// Engine are the rights of slipway-lifecycle.
	Engine []rights.Right
	// Author are the rights of whoever writes the policy.
	Author []AuthorRight
}

// Reference is a ConfigMap or Secret, and the field that names it.
type Reference struct {
	At         *field.Path
	Kind, Name string
}

// AuthorRight is a right, and the field that needs it.
type AuthorRight struct {
	At    *field.Path
	Right rights.Right
}

// Of returns the kind of a step. A step without a kind that is known here fails.
func Of(s *lifecyclev1.Step) Kind {
	if i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Is(s) }); i >= 0 {
		return kinds[i]
	}
	return unknownKind{}
}

// FactsOf returns the facts of a step.
func FactsOf(s *lifecyclev1.Step) Facts { return Of(s).Facts(s) }

// defaultLimit is the time limit of steps that do something themselves.
const defaultLimit = 600 * time.Second

// Timeout is how long a step may take; 0 for no limit.
func Timeout(s *lifecyclev1.Step) time.Duration {
	if s.TimeoutSeconds != nil {
		return time.Duration(*s.TimeoutSeconds) * time.Second
	}
	return FactsOf(s).Limit
}

// Needed returns the needs of all steps of a policy.
func Needed(p *lifecyclev1.LifecyclePolicy) Needs {
	var all Needs
	for i := range p.Spec.Hooks {
		for j := range p.Spec.Hooks[i].Steps {
			s := &p.Spec.Hooks[i].Steps[j]
			needs := Of(s).Needs(p.Namespace, s, Path(i, j))
			all.Reads = append(all.Reads, needs.Reads...)
			all.Engine = append(all.Engine, needs.Engine...)
			all.Author = append(all.Author, needs.Author...)
		}
	}
	all.Engine = rights.Distinct(all.Engine)
	return all
}

// Path is that of a step of a policy.
func Path(hook, step int) *field.Path {
	return field.NewPath("spec", "hooks").Index(hook).Child("steps").Index(step)
}

// unknownKind is that of a step of a newer API.
type unknownKind struct{}

func (unknownKind) Name() string                                       { return "" }
func (unknownKind) Is(*lifecyclev1.Step) bool                          { return false }
func (unknownKind) Needs(string, *lifecyclev1.Step, *field.Path) Needs { return Needs{} }
func (unknownKind) Facts(*lifecyclev1.Step) Facts {
	return Facts{Doing: "is of a kind that is not known here", Limit: defaultLimit}
}

// Validate implements Kind.
func (unknownKind) Validate(*lifecyclev1.Step, *field.Path) field.ErrorList { return nil }

// Execute implements Kind.
func (unknownKind) Execute(context.Context, Input) (Result, error) {
	return Result{}, Terminal(errors.New("steps of this kind are not known here"), "update slipway-lifecycle, then retry")
}
