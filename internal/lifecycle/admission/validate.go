package admission

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/lifecycle/schedule"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// Validate returns the faults of a policy that can be found without the API server;
// nil when there are none.
func Validate(policy *lifecyclev1.LifecyclePolicy) error { return validate(policy).ToAggregate() }

func validate(policy *lifecyclev1.LifecyclePolicy) field.ErrorList {
	spec := field.NewPath("spec")
	errs := selector(policy.Spec.ClusterSelector, spec.Child("clusterSelector"))
	if policy.Spec.MatchCondition != "" {
		errs = append(errs, compiles(policy.Spec.MatchCondition, expression.Match, spec.Child("matchCondition"))...)
	}
	for i := range policy.Spec.Hooks {
		hook := &policy.Spec.Hooks[i]
		for j := range hook.Steps {
			errs = append(errs, validateStep(hook.Hook, &hook.Steps[j], stepPath(i, j))...)
		}
	}
	return errs
}

func stepPath(hook, step int) *field.Path {
	return field.NewPath("spec", "hooks").Index(hook).Child("steps").Index(step)
}

func validateStep(hook lifecyclev1.HookName, s *lifecyclev1.Step, p *field.Path) field.ErrorList {
	errs := append(oneKind(s, p), validateRetry(s.Retry, p.Child("retry"))...)
	if hook == lifecyclev1.BeforeClusterCreate {
		errs = append(errs, noWorkload(s, p)...)
	}
	if s.Expression != nil {
		errs = append(errs, compiles(s.Expression.Expression, expression.Step, p.Child("expression", "expression"))...)
	}
	if s.Window != nil {
		errs = append(errs, validateWindow(s.Window, p.Child("window"))...)
	}
	if s.Apply != nil {
		errs = append(errs, validateApply(s.Apply, p.Child("apply"))...)
	}
	if s.Job != nil {
		errs = append(errs, validateJob(s.Job, p.Child("job"))...)
	}
	if s.Webhook != nil {
		errs = append(errs, validateWebhook(s.Webhook, p.Child("webhook"))...)
	}
	if s.Wait != nil {
		errs = append(errs, validateWait(s.Wait, p.Child("wait"))...)
	}
	if s.Export != nil {
		errs = append(errs, validateExport(s.Export, p.Child("export"))...)
	}
	return errs
}

// oneKind repeats a rule of the CRD for policies that were stored without it.
func oneKind(s *lifecyclev1.Step, p *field.Path) field.ErrorList {
	kinds := step.Kinds(s)
	switch len(kinds) {
	case 1:
		return nil
	case 0:
		return field.ErrorList{field.Required(p, "one of expression, window, approval, apply, job, webhook, wait and export")}
	}
	return field.ErrorList{field.Invalid(p, fmt.Sprint(kinds), "a step does one thing: make a step of each")}
}

// noWorkload refuses what works on the workload cluster before there is one.
func noWorkload(s *lifecyclev1.Step, p *field.Path) field.ErrorList {
	const detail = "at BeforeClusterCreate there is no workload cluster yet: use AfterControlPlaneInitialized"
	switch {
	case s.Apply != nil:
		return field.ErrorList{field.Forbidden(p.Child("apply"), detail)}
	case s.Wait != nil:
		return field.ErrorList{field.Forbidden(p.Child("wait"), detail)}
	case s.Export != nil:
		return field.ErrorList{field.Forbidden(p.Child("export"), detail)}
	case s.Job != nil && s.Job.Target != lifecyclev1.TargetManagement:
		return field.ErrorList{field.Forbidden(p.Child("job", "target"), detail+", or the target Management")}
	}
	return nil
}

func validateRetry(retry *lifecyclev1.RetryPolicy, p *field.Path) field.ErrorList {
	if retry == nil || retry.MaxBackoffSeconds == nil {
		return nil
	}
	if time.Duration(*retry.MaxBackoffSeconds)*time.Second < plan.FirstBackoff(retry) {
		return field.ErrorList{field.Invalid(p.Child("maxBackoffSeconds"), *retry.MaxBackoffSeconds, "must not be less than backoffSeconds")}
	}
	return nil
}

func validateWindow(w *lifecyclev1.WindowStep, p *field.Path) field.ErrorList {
	_, err := schedule.Parse(*w)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, schedule.ErrTimeZone):
		return field.ErrorList{field.Invalid(p.Child("timeZone"), w.TimeZone, err.Error())}
	case errors.Is(err, schedule.ErrDuration):
		return field.ErrorList{field.Invalid(p.Child("durationSeconds"), w.DurationSeconds, err.Error())}
	}
	return field.ErrorList{field.Invalid(p.Child("schedule"), w.Schedule, err.Error())}
}

func validateApply(a *lifecyclev1.ApplyStep, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[lifecyclev1.ManifestSource]bool{}
	for i, source := range a.Sources {
		sp := p.Child("sources").Index(i)
		errs = append(errs, matches(source.Name, validation.IsDNS1123Subdomain, sp.Child("name"))...)
		if source.Key != "" {
			errs = append(errs, matches(source.Key, validation.IsConfigMapKey, sp.Child("key"))...)
		}
		if seen[source] {
			errs = append(errs, field.Duplicate(sp, source.Name))
		}
		seen[source] = true
	}
	return errs
}

func validateJob(j *lifecyclev1.JobStep, p *field.Path) field.ErrorList {
	_, errs := step.ParseJobSpec(j.Spec.Raw, p.Child("spec"))
	if j.Namespace == "" {
		return errs
	}
	if j.Target == lifecyclev1.TargetManagement {
		return append(errs, field.Forbidden(p.Child("namespace"), "in the management cluster a Job runs in the namespace of its policy"))
	}
	return append(errs, matches(j.Namespace, validation.IsDNS1123Label, p.Child("namespace"))...)
}

func validateWebhook(w *lifecyclev1.WebhookStep, p *field.Path) field.ErrorList {
	errs := matches(w.SecretName, validation.IsDNS1123Subdomain, p.Child("secretName"))
	if _, err := step.ParseEndpoint(w.URL); err != nil {
		// The URL may hold a password.
		errs = append(errs, field.Invalid(p.Child("url"), field.OmitValueType{}, err.Error()))
	}
	if w.CABundle != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(w.CABundle)) {
		errs = append(errs, field.Invalid(p.Child("caBundle"), field.OmitValueType{}, "holds no certificate in PEM form"))
	}
	return errs
}

func validateWait(w *lifecyclev1.WaitStep, p *field.Path) field.ErrorList {
	errs := append(kindOf(w.APIVersion, w.Kind, p), selector(w.LabelSelector, p.Child("labelSelector"))...)
	errs = append(errs, compiles(w.Expression, expression.Wait, p.Child("expression"))...)
	if w.Namespace != "" {
		errs = append(errs, matches(w.Namespace, validation.IsDNS1123Label, p.Child("namespace"))...)
	}
	if w.Name != "" {
		errs = append(errs, matches(w.Name, content.IsPathSegmentName, p.Child("name"))...)
		if w.LabelSelector != nil {
			errs = append(errs, field.Forbidden(p.Child("labelSelector"), "name selects the object already: set one of the two"))
		}
	}
	return errs
}

func validateExport(e *lifecyclev1.ExportStep, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if e.Namespace != "" {
		errs = matches(e.Namespace, validation.IsDNS1123Label, p.Child("namespace"))
	}
	for i, resource := range e.Resources {
		rp := p.Child("resources").Index(i)
		errs = append(errs, kindOf(resource.APIVersion, resource.Kind, rp)...)
		errs = append(errs, selector(resource.LabelSelector, rp.Child("labelSelector"))...)
		for j, namespace := range resource.Namespaces {
			errs = append(errs, matches(namespace, validation.IsDNS1123Label, rp.Child("namespaces").Index(j))...)
		}
	}
	return errs
}

// kindOf checks apiVersion and kind.
func kindOf(apiVersion, kind string, p *field.Path) field.ErrorList {
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

func selector(s *metav1.LabelSelector, p *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, p)
}

func compiles(text string, kind expression.Kind, p *field.Path) field.ErrorList {
	if _, err := expression.Compile(text, kind); err != nil {
		return field.ErrorList{field.Invalid(p, text, err.Error())}
	}
	return nil
}
