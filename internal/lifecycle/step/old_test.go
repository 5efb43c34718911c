package step

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
	"github.com/slipway-dev/slipway/internal/lifecycle/schedule"
)

// generator makes steps that are valid in most fields, and odd in some.
type generator struct{ *rand.Rand }

func (g generator) one(of ...string) string { return of[g.IntN(len(of))] }

func (g generator) selector() *metav1.LabelSelector {
	switch g.IntN(4) {
	case 0:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	case 1:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"-": "b"}}
	}
	return nil
}

func (g generator) step() *lifecyclev1.Step {
	s := &lifecyclev1.Step{Name: "a"}
	if g.IntN(3) == 0 {
		s.TimeoutSeconds = ptr.To(int32(g.IntN(100)))
	}
	if g.IntN(3) == 0 {
		s.Retry = &lifecyclev1.RetryPolicy{BackoffSeconds: ptr.To(int32(g.IntN(9))), MaxBackoffSeconds: ptr.To(int32(g.IntN(9)))}
	}
	namespace, target := g.one("", "team-a", "archives", "No"), lifecyclev1.Target(g.one("", "Workload", "Management"))
	switch g.IntN(8) {
	case 0:
		s.Expression = &lifecyclev1.ExpressionStep{Expression: g.one("true", "hosts.size() > 0 &&\n  "+strings.Repeat("true && ", 40)+"true", "objects", "1 +"), Message: g.one("", "why")}
	case 1:
		s.Window = &lifecyclev1.WindowStep{Schedule: g.one("@daily", "0 22 * * 6", "0 22 1-7 * 6", "at night", "0 0 29 2 *", "* * * * *"), TimeZone: g.one("", "Europe/Berlin", "Nowhere/No"), DurationSeconds: int32(g.IntN(3) * 1800)}
	case 2:
		s.Approval = &lifecyclev1.ApprovalStep{Message: g.one("", "a cluster")}
	case 3:
		s.Apply = &lifecyclev1.ApplyStep{}
		for range g.IntN(4) {
			s.Apply.Sources = append(s.Apply.Sources, lifecyclev1.ManifestSource{Kind: g.one("ConfigMap", "Secret"), Name: g.one("a", "b", "B_"), Key: g.one("", "k", "/")})
		}
	case 4:
		s.Job = &lifecyclev1.JobStep{Target: target, Namespace: namespace, Spec: runtime.RawExtension{Raw: []byte(g.one("", "{}", "[", `{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"b"}]}}}`))}}
	case 5:
		s.Webhook = &lifecyclev1.WebhookStep{URL: g.one("https://a/b?c", "http://a", "https://u:p@h", "%"), SecretName: g.one("s", "S_"), CABundle: g.one("", "pem")}
	case 6:
		s.Wait = &lifecyclev1.WaitStep{APIVersion: g.one("v1", "apps/v1", "a/b/c", ""), Kind: g.one("Pod", "pod", "_"), Namespace: namespace, Name: g.one("", "n", "a/b"), LabelSelector: g.selector(), Expression: g.one("objects.size() > 0", "nothing"), Message: g.one("", "why")}
	default:
		s.Export = &lifecyclev1.ExportStep{Namespace: namespace}
		for range g.IntN(3) {
			s.Export.Resources = append(s.Export.Resources, lifecyclev1.ExportResource{APIVersion: g.one("v1", "x y"), Kind: g.one("Pod", "pod"), Namespaces: []string{g.one("a", "A")}, LabelSelector: g.selector()})
		}
	}
	return s
}

func TestKindsAgreeWithWhatWas(t *testing.T) {
	g, at, names := generator{rand.New(rand.NewPCG(1, 2))}, Path(1, 2), map[string]int{}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	faults, warnings := 0, 0
	for range 2000 {
		s := g.step()
		kind, facts := Of(s), FactsOf(s)
		names[kind.Name()]++
		same := func(what string, got, want any) {
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s of %+v: %v, want %v", what, s, got, want)
			}
		}
		same("timeout", Timeout(s), oldTimeout(s))
		same("waits", facts.Waits, oldLooksOnly(s, &lifecyclev1.StepProgress{}))
		same("workload", facts.Workload != "", oldOnWorkload(s))
		same("follows", facts.FollowsCluster, s.Expression != nil)
		same("approval", facts.Approval != "", s.Approval != nil)
		if s.Approval == nil {
			same("doing", facts.Doing, oldDoing(s))
		}
		needs := kind.Needs("team-a", s, at)
		same("rights", fmt.Sprint(needs.Engine), fmt.Sprint(oldOfStep("team-a", s)))
		same("author", fmt.Sprint(authorsOf(needs)), fmt.Sprint(oldAuthors(oldNeeds("team-a", s, at))))
		same("reads", fmt.Sprint(readsOf(needs)), fmt.Sprint(oldReads(s, at)))
		hook := lifecyclev1.Hooks()[g.IntN(9)]
		want := oldValidate(hook, s, at).ToAggregate()
		same("validation", fmt.Sprint(Validate(hook, s, at).ToAggregate()), fmt.Sprint(want))
		if want != nil {
			faults++
		}
		if s.Window != nil {
			want := oldSurprises(s.Window, now)
			warnings += len(want)
			same("warnings", kind.(Warner).Warnings(s, now), want)
			old, err := schedule.Parse(*s.Window)
			lasting, failed := facts.Lasting(now)
			same("error", fmt.Sprint(failed), fmt.Sprint(err))
			if err == nil {
				open, until := old.At(now)
				same("holds", []any{lasting.Holds, lasting.Changes}, []any{open, until})
			}
		} else {
			same("lasting", facts.Lasting == nil, true)
		}
	}
	if len(names) != 8 || faults < 200 || warnings < 20 {
		t.Errorf("only %v, %d faults, %d warnings", names, faults, warnings)
	}
}

func authorsOf(n Needs) (all []string) {
	for _, a := range n.Author {
		all = append(all, fmt.Sprint(a.At, a.Right))
	}
	return all
}

func oldAuthors(needs []oldNeed) (all []string) {
	for _, a := range needs {
		all = append(all, fmt.Sprint(a.at, a.right))
	}
	return all
}

func readsOf(n Needs) (all []string) {
	for _, r := range n.Reads {
		all = append(all, fmt.Sprint(r.At, r.Kind, r.Name))
	}
	return all
}

func oldReads(s *lifecyclev1.Step, at *field.Path) (all []string) {
	if s.Apply != nil {
		for i, source := range s.Apply.Sources {
			all = append(all, fmt.Sprint(at.Child("apply", "sources").Index(i), source.Kind, source.Name))
		}
	}
	if s.Webhook != nil {
		all = append(all, fmt.Sprint(at.Child("webhook", "secretName"), "Secret", s.Webhook.SecretName))
	}
	return all
}

func oldLooksOnly(s *lifecyclev1.Step, progress *lifecyclev1.StepProgress) bool {
	if s.Job != nil {
		return progress.Job != nil && progress.Job.UID != ""
	}
	return s.Expression != nil || s.Window != nil || s.Approval != nil || s.Wait != nil
}

func oldTimeout(s *lifecyclev1.Step) time.Duration {
	switch {
	case s.TimeoutSeconds != nil:
		return time.Duration(*s.TimeoutSeconds) * time.Second
	case s.Expression != nil || s.Window != nil || s.Approval != nil:
		return 0
	default:
		return 600 * time.Second
	}
}

func oldDoing(s *lifecyclev1.Step) string {
	switch {
	case s.Expression != nil && s.Expression.Message != "":
		return fmt.Sprintf("waits (%s)", s.Expression.Message)
	case s.Expression != nil:
		return fmt.Sprintf("waits until %s", oldOneLine(s.Expression.Expression))
	case s.Window != nil:
		zone := s.Window.TimeZone
		if zone == "" {
			zone = schedule.DefaultTimeZone
		}
		return fmt.Sprintf("waits for the window %q (%s)", s.Window.Schedule, zone)
	case s.Wait != nil && s.Wait.Message != "":
		return fmt.Sprintf("waits (%s)", s.Wait.Message)
	case s.Wait != nil:
		return fmt.Sprintf("waits for %s until %s", s.Wait.Kind, oldOneLine(s.Wait.Expression))
	case s.Apply != nil:
		return "applies manifests"
	case s.Job != nil:
		return "runs a Job"
	case s.Webhook != nil:
		return "calls " + oldHost(s.Webhook.URL)
	default:
		return "exports objects"
	}
}

func oldOneLine(e string) string { return Cut(strings.Join(strings.Fields(e), " "), 160) }

func oldHost(text string) string {
	u, err := ParseEndpoint(text)
	if err != nil {
		return "an endpoint"
	}
	return EndpointHost(u)
}

func oldOnWorkload(s *lifecyclev1.Step) bool {
	return s.Apply != nil || s.Wait != nil || s.Export != nil || s.Job != nil && s.Job.Target != lifecyclev1.TargetManagement
}

func oldOfStep(namespace string, s *lifecyclev1.Step) []rights.Right {
	// A kubeconfig, whose name is that of a Cluster.
	kubeconfig := rights.Right{Namespace: namespace, Verb: "get", Resource: "secrets"}
	switch {
	case s.Apply != nil:
		needs := []rights.Right{kubeconfig}
		for _, source := range s.Apply.Sources {
			resource := "configmaps"
			if source.Kind == "Secret" {
				resource = "secrets"
			}
			needs = append(needs, rights.Right{Namespace: namespace, Verb: "get", Resource: resource, Name: source.Name})
		}
		return needs
	case s.Webhook != nil:
		return []rights.Right{{Namespace: namespace, Verb: "get", Resource: "secrets", Name: s.Webhook.SecretName}}
	case s.Wait != nil:
		return []rights.Right{kubeconfig}
	case s.Export != nil:
		return append([]rights.Right{kubeconfig}, rights.Verbs(rights.Right{Namespace: cmp.Or(s.Export.Namespace, namespace), Resource: "secrets"}, "get", "create", "update", "delete")...)
	case s.Job != nil:
		return oldOfJob(namespace, s.Job)
	}
	return nil
}

func oldOfJob(namespace string, s *lifecyclev1.JobStep) []rights.Right {
	needs := rights.Verbs(rights.Right{Namespace: namespace, Resource: "secrets"}, "get", "create", "update")
	if s.Target == lifecyclev1.TargetManagement {
		needs = append(needs, rights.Verbs(rights.Right{Namespace: namespace, Group: batchv1.GroupName, Resource: "jobs"}, "get", "create", "patch", "delete")...)
		needs = append(needs,
			rights.Right{Namespace: namespace, Verb: "list", Resource: "pods"},
			rights.Right{Namespace: namespace, Verb: "get", Resource: "pods", Subresource: "log"})
	}
	return needs
}

type oldNeed struct {
	at    *field.Path
	right rights.Right
}

func oldNeeds(namespace string, s *lifecyclev1.Step, at *field.Path) []oldNeed {
	var needs []oldNeed
	if s.Job != nil && s.Job.Target == lifecyclev1.TargetManagement {
		needs = append(needs, oldNeed{at.Child("job", "target"), rights.Right{
			Namespace: namespace, Verb: "create", Group: batchv1.GroupName, Resource: "jobs",
		}})
	}
	if s.Export != nil && s.Export.Namespace != "" && s.Export.Namespace != namespace {
		needs = append(needs, oldNeed{at.Child("export", "namespace"), rights.Right{
			Namespace: s.Export.Namespace, Verb: "create", Resource: "secrets",
		}})
	}
	if s.Apply == nil {
		return needs
	}
	for i, source := range s.Apply.Sources {
		if source.Kind == "Secret" {
			needs = append(needs, oldNeed{at.Child("apply", "sources").Index(i), rights.Right{
				Namespace: namespace, Verb: "get", Resource: "secrets", Name: source.Name,
			}})
		}
	}
	return needs
}

func oldValidate(hook lifecyclev1.HookName, s *lifecyclev1.Step, p *field.Path) field.ErrorList {
	errs := validateRetry(s.Retry, p.Child("retry"))
	if hook == lifecyclev1.BeforeClusterCreate {
		errs = append(errs, oldNoWorkload(s, p)...)
	}
	if s.Expression != nil {
		errs = append(errs, ValidateExpression(s.Expression.Expression, expression.Step, p.Child("expression", "expression"))...)
	}
	if s.Window != nil {
		errs = append(errs, oldValidateWindow(s.Window, p.Child("window"))...)
	}
	if s.Apply != nil {
		errs = append(errs, oldValidateApply(s.Apply, p.Child("apply"))...)
	}
	if s.Job != nil {
		errs = append(errs, oldValidateJob(s.Job, p.Child("job"))...)
	}
	if s.Webhook != nil {
		errs = append(errs, oldValidateWebhook(s.Webhook, p.Child("webhook"))...)
	}
	if s.Wait != nil {
		errs = append(errs, oldValidateWait(s.Wait, p.Child("wait"))...)
	}
	if s.Export != nil {
		errs = append(errs, oldValidateExport(s.Export, p.Child("export"))...)
	}
	return errs
}

func oldNoWorkload(s *lifecyclev1.Step, p *field.Path) field.ErrorList {
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

func oldValidateWindow(w *lifecyclev1.WindowStep, p *field.Path) field.ErrorList {
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

func oldValidateApply(a *lifecyclev1.ApplyStep, p *field.Path) field.ErrorList {
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

func oldValidateJob(j *lifecyclev1.JobStep, p *field.Path) field.ErrorList {
	_, errs := ParseJobSpec(j.Spec.Raw, p.Child("spec"))
	if j.Namespace == "" {
		return errs
	}
	if j.Target == lifecyclev1.TargetManagement {
		return append(errs, field.Forbidden(p.Child("namespace"), "in the management cluster a Job runs in the namespace of its policy"))
	}
	return append(errs, matches(j.Namespace, validation.IsDNS1123Label, p.Child("namespace"))...)
}

func oldValidateWebhook(w *lifecyclev1.WebhookStep, p *field.Path) field.ErrorList {
	errs := matches(w.SecretName, validation.IsDNS1123Subdomain, p.Child("secretName"))
	if _, err := ParseEndpoint(w.URL); err != nil {
		// The URL may hold a password.
		errs = append(errs, field.Invalid(p.Child("url"), field.OmitValueType{}, err.Error()))
	}
	if w.CABundle != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(w.CABundle)) {
		errs = append(errs, field.Invalid(p.Child("caBundle"), field.OmitValueType{}, "holds no certificate in PEM form"))
	}
	return errs
}

func oldValidateWait(w *lifecyclev1.WaitStep, p *field.Path) field.ErrorList {
	errs := append(validateKind(w.APIVersion, w.Kind, p), ValidateSelector(w.LabelSelector, p.Child("labelSelector"))...)
	errs = append(errs, ValidateExpression(w.Expression, expression.Wait, p.Child("expression"))...)
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

func oldValidateExport(e *lifecyclev1.ExportStep, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if e.Namespace != "" {
		errs = matches(e.Namespace, validation.IsDNS1123Label, p.Child("namespace"))
	}
	for i, resource := range e.Resources {
		rp := p.Child("resources").Index(i)
		errs = append(errs, validateKind(resource.APIVersion, resource.Kind, rp)...)
		errs = append(errs, ValidateSelector(resource.LabelSelector, rp.Child("labelSelector"))...)
		for j, namespace := range resource.Namespaces {
			errs = append(errs, matches(namespace, validation.IsDNS1123Label, rp.Child("namespaces").Index(j))...)
		}
	}
	return errs
}

func oldSurprises(step *lifecyclev1.WindowStep, now time.Time) []string {
	window, err := schedule.Parse(*step)
	if err != nil {
		return nil
	}
	var all []string
	if window.Permanent(now, 366*24*time.Hour) {
		all = append(all, "the window never closes: it opens again before durationSeconds are over")
	}
	if window.EitherDay() {
		var openings []string
		for _, opening := range window.Openings(now, 5) {
			openings = append(openings, opening.Format("Mon 2006-01-02 15:04 MST"))
		}
		all = append(all, fmt.Sprintf("day of month and day of week both restrict, so the window opens on days that match either: %s. "+
			"For days that match both, such as the first Saturday of a month, write 0 22 */100,1-7 * 6", strings.Join(openings, ", ")))
	}
	return all
}
