package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
)

// registered are all kinds of steps, in the order of their files.
var registered []Kind

// register adds a kind: its file has all there is of it.
func register(k Kind) bool { //nolint:unparam // a variable of the package is initialised by it
	registered = append(registered, k)
	return true
}

// Kinds are all kinds of steps, in the order of the API.
var Kinds = sync.OnceValue(func() []Kind {
	order := map[string]int{}
	for i, field := range reflect.VisibleFields(reflect.TypeFor[lifecyclev1.Step]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		order[name] = i
	}
	return slices.SortedFunc(slices.Values(registered), func(a, b Kind) int { return cmp.Compare(order[a.Name()], order[b.Name()]) })
})

// Kind is all there is to know of a kind of step. There is nothing to embed: a kind that leaves a
// question open does not compile. All methods but Execute are pure.
type Kind interface {
	// Name is the field of the API, and the label of metrics.
	Name() string
	// Is says whether a step is of the kind.
	Is(s *lifecyclev1.Step) bool
	// Manual is the row of docs/lifecycle.md: when the step is done, and whether it works on the
	// workload cluster.
	Manual() (done, workload string)
	// Facts are the same for every attempt of a step.
	Facts(s *lifecyclev1.Step) Facts
	// Needs are what a step of a policy in a namespace needs. at is the path of the step.
	Needs(namespace string, s *lifecyclev1.Step, at *field.Path) Needs
	// Validate returns the faults that the CRD cannot find. at is the path of the step.
	Validate(s *lifecyclev1.Step, at *field.Path) field.ErrorList
	// Execute makes one attempt. It must be idempotent: an attempt can be cut off at
	// any point and is then repeated with the same Input.Progress, and everything it
	// creates has a name that follows from the run, the step and Progress.Attempt. It
	// may run as long as the step; what continues by itself is polled later.
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
	for _, kind := range Kinds() {
		if kind.Is(s) {
			return kind
		}
	}
	return unknownKind{}
}

// FactsOf returns the facts of a step.
func FactsOf(s *lifecyclev1.Step) Facts { return Of(s).Facts(s) }

// defaultLimit is the time limit of steps that do something themselves.
const defaultLimit = 600 * time.Second

// Timeout is the time limit of a step; 0 for none.
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

func (unknownKind) Name() string                                              { return "" }
func (unknownKind) Manual() (done, workload string)                           { return "", "" }
func (unknownKind) Is(*lifecyclev1.Step) bool                                 { return false }
func (unknownKind) Needs(string, *lifecyclev1.Step, *field.Path) (none Needs) { return none }
func (unknownKind) Facts(*lifecyclev1.Step) (f Facts) {
	f.Doing, f.Limit = "is of a kind that is not known here", defaultLimit
	return f
}

// Validate implements Kind.
func (unknownKind) Validate(*lifecyclev1.Step, *field.Path) field.ErrorList { return nil }

// Execute implements Kind.
func (unknownKind) Execute(context.Context, Input) (Result, error) {
	return Result{}, Terminal(errors.New("steps of this kind are not known here"), "update slipway-lifecycle, then retry")
}

// Validate returns the faults of a step at a hook that the CRD cannot find.
func Validate(hook lifecyclev1.HookName, s *lifecyclev1.Step, at *field.Path) field.ErrorList {
	errs := append(oneKind(s, at), validateRetry(s.Retry, at.Child("retry"))...)
	kind := Of(s)
	if field := kind.Facts(s).Workload; field != "" && hook == lifecyclev1.BeforeClusterCreate {
		errs = append(errs, noWorkloadYet(at, field))
	}
	return append(errs, kind.Validate(s, at)...)
}

// oneKind repeats a rule of the CRD for policies that were stored without it.
func oneKind(s *lifecyclev1.Step, at *field.Path) field.ErrorList {
	var all, set []string
	for _, kind := range Kinds() {
		all = append(all, kind.Name())
		if kind.Is(s) {
			set = append(set, kind.Name())
		}
	}
	switch len(set) {
	case 1:
		return nil
	case 0:
		return field.ErrorList{field.Required(at, "one of "+strings.Join(all, ", "))}
	}
	return field.ErrorList{field.Invalid(at, fmt.Sprint(set), "a step does one thing: make a step of each")}
}

func noWorkloadYet(at *field.Path, name string) *field.Error {
	detail := "at BeforeClusterCreate there is no workload cluster yet: use AfterControlPlaneInitialized"
	if strings.HasSuffix(name, ".target") {
		detail += ", or the target Management"
	}
	return field.Forbidden(at.Child(name), detail)
}

// FirstBackoff is the pause after the first failed attempt.
func FirstBackoff(retry *lifecyclev1.RetryPolicy) time.Duration {
	if retry == nil || retry.BackoffSeconds == nil {
		return 5 * time.Second
	}
	return time.Duration(*retry.BackoffSeconds) * time.Second
}

func validateRetry(retry *lifecyclev1.RetryPolicy, p *field.Path) field.ErrorList {
	if retry == nil || retry.MaxBackoffSeconds == nil {
		return nil
	}
	if time.Duration(*retry.MaxBackoffSeconds)*time.Second < FirstBackoff(retry) {
		return field.ErrorList{field.Invalid(p.Child("maxBackoffSeconds"), *retry.MaxBackoffSeconds, "must not be less than backoffSeconds")}
	}
	return nil
}

// validateKind checks apiVersion and kind.
func validateKind(apiVersion, kind string, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	gv, err := schema.ParseGroupVersion(apiVersion)
	switch {
	case err != nil || gv.Version == "":
		errs = append(errs, field.Invalid(p.Child("apiVersion"), apiVersion, "must be like v1 or apps/v1"))
	case gv.Group != "":
		errs = append(errs, matches(gv.Group, validation.IsDNS1123Subdomain, p.Child("apiVersion"))...)
		fallthrough
	default:
		errs = append(errs, matches(gv.Version, validation.IsDNS1035Label, p.Child("apiVersion"))...)
	}
	if problems := validation.IsDNS1035Label(strings.ToLower(kind)); len(problems) > 0 || kind == strings.ToLower(kind) {
		errs = append(errs, field.Invalid(p.Child("kind"), kind, "must be the name of a kind, such as Deployment"))
	}
	return errs
}

func matches(value string, check func(string) []string, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range check(value) {
		errs = append(errs, field.Invalid(p, value, problem))
	}
	return errs
}

// ValidateSelector returns the faults of a label selector.
func ValidateSelector(s *metav1.LabelSelector, p *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, p)
}

// ValidateExpression returns the faults of an expression.
func ValidateExpression(text string, kind expression.Kind, p *field.Path) field.ErrorList {
	if _, err := expression.Compile(text, kind); err != nil {
		return field.ErrorList{field.Invalid(p, text, err.Error())}
	}
	return nil
}

// kubeconfig is the right on that of a workload cluster, whose name is a Cluster's.
func kubeconfig(namespace string) []rights.Right {
	return []rights.Right{{Namespace: namespace, Verb: "get", Resource: "secrets"}}
}
