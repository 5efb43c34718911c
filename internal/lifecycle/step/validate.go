package step

import (
	"fmt"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
)

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
	for _, kind := range kinds {
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
