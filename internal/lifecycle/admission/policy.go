package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/policy"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
	"github.com/slipway-dev/slipway/internal/lifecycle/schedule"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-lifecycle-slipway-dev-v1alpha1-lifecyclepolicy,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=lifecycle.slipway.dev,resources=lifecyclepolicies,versions=v1alpha1,name=validation.lifecyclepolicy.lifecycle.slipway.dev,sideEffects=NoneOnDryRun,admissionReviewVersions=v1
// +kubebuilder:rbac:groups=lifecycle.slipway.dev,resources=lifecyclepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// policyValidator validates LifecyclePolicies.
type policyValidator struct {
	// namespace is the only one whose policies are executed; empty for all.
	namespace string
	// client lists policies and Clusters, and tries Jobs by dry run.
	client client.Client
	// reader looks for ConfigMaps and Secrets, which no cache holds.
	reader client.Reader
	access *access
	gates  *deletionGates
	guard  *policy.Guard
	now    func() time.Time
}

// ValidateCreate implements admission.Validator.
func (v *policyValidator) ValidateCreate(ctx context.Context, p *lifecyclev1.LifecyclePolicy) (ctrladmission.Warnings, error) {
	return v.validate(ctx, p)
}

// ValidateUpdate implements admission.Validator. Metadata can be changed whatever the
// spec, so that a policy which is not valid any more can be deleted.
func (v *policyValidator) ValidateUpdate(ctx context.Context, before, p *lifecyclev1.LifecyclePolicy) (ctrladmission.Warnings, error) {
	if equality.Semantic.DeepEqual(before.Spec, p.Spec) {
		return nil, nil
	}
	return v.validate(ctx, p)
}

// ValidateDelete implements admission.Validator.
func (v *policyValidator) ValidateDelete(ctx context.Context, p *lifecyclev1.LifecyclePolicy) (ctrladmission.Warnings, error) {
	return nil, v.gates.keepPolicy(ctx, p)
}

func (v *policyValidator) validate(ctx context.Context, p *lifecyclev1.LifecyclePolicy) (ctrladmission.Warnings, error) {
	if v.namespace != "" && p.Namespace != v.namespace {
		return nil, apierrors.NewForbidden(lifecyclev1.GroupVersion.WithResource("lifecyclepolicies").GroupResource(), p.Name, fmt.Errorf(
			"metadata.namespace: the slipway-lifecycle that was asked executes policies of namespace %s only (--namespace); make the policy there, or limit its webhooks by namespaceSelector kubernetes.io/metadata.name: %s and have another engine for namespace %s",
			v.namespace, v.namespace, p.Namespace))
	}
	errs := validate(p)
	if len(errs) == 0 {
		tried, err := v.tryJobs(ctx, p)
		if err != nil {
			return nil, err
		}
		errs = tried
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(lifecyclev1.GroupVersion.WithKind("LifecyclePolicy").GroupKind(), p.Name, errs)
	}
	if err := v.authorize(ctx, p); err != nil {
		return nil, err
	}
	warnings, err := v.warnings(ctx, p)
	if err != nil {
		return nil, err
	}
	return warnings, v.guardNamespace(ctx, p)
}

// guardNamespace has the deletion of the policy's Namespace guarded before the policy is
// stored, so that no policy is ever there without its guard. A dry run changes nothing.
func (v *policyValidator) guardNamespace(ctx context.Context, p *lifecyclev1.LifecyclePolicy) error {
	request, err := ctrladmission.RequestFromContext(ctx)
	if err != nil {
		return fmt.Errorf("read the admission request: %w", err)
	}
	if !policy.HoldsDeletions(p) || ptr.Deref(request.DryRun, false) {
		return nil
	}
	return v.guard.Set(ctx, p.Namespace)
}

// tryJobs has the API server validate Jobs by a dry run, wherever they are to run: the
// rules are the same. It is made in the engine's own namespace, for which it has the right.
func (v *policyValidator) tryJobs(ctx context.Context, p *lifecyclev1.LifecyclePolicy) (field.ErrorList, error) {
	own, err := v.access.own.Namespace(ctx)
	if err != nil {
		return nil, err
	}
	namespace := cmp.Or(own, p.Namespace)
	var errs field.ErrorList
	for i := range p.Spec.Hooks {
		for j := range p.Spec.Hooks[i].Steps {
			s := &p.Spec.Hooks[i].Steps[j]
			if s.Job == nil {
				continue
			}
			at := stepPath(i, j).Child("job")
			spec, faults := step.ParseJobSpec(s.Job.Spec.Raw, at.Child("spec"))
			if len(faults) > 0 {
				return faults, nil
			}
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "try-"}, Spec: *spec}
			err := v.client.Create(ctx, job, client.DryRunAll)
			if err != nil && ctx.Err() != nil {
				return nil, fmt.Errorf("validate the Job of step %s: %w", s.Name, err)
			}
			if unserved(err) && s.Job.Target == lifecyclev1.TargetManagement {
				errs = append(errs, field.Invalid(at.Child("target"), s.Job.Target,
					"the management cluster serves no Jobs (batch/v1), as a plane does not: use the target Workload, or a webhook step"))
				continue
			}
			errs = append(errs, refusals(err, at)...)
		}
	}
	return errs, nil
}

// unserved says whether the API server does not know the kind at all. It answers so without a
// name of an object.
func unserved(err error) bool {
	var status apierrors.APIStatus
	if apierrors.IsNotFound(err) && errors.As(err, &status) {
		return status.Status().Details == nil || status.Status().Details.Name == ""
	}
	return meta.IsNoMatchError(err)
}

// refusals are the fields of a Job that the API server refuses. Policies of the
// management cluster that refuse a Job as a whole may not be those of the workload
// cluster.
func refusals(err error, at *field.Path) field.ErrorList {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var errs field.ErrorList
	for _, cause := range status.Status().Details.Causes {
		if strings.HasPrefix(cause.Field, "spec.") {
			errs = append(errs, field.Invalid(at.Child(cause.Field), field.OmitValueType{}, cause.Message))
		}
	}
	return errs
}

// authorize keeps a policy from doing for its author what the author may not do: run
// Jobs in the management cluster, send what is in a Secret elsewhere, and write Secrets
// of other namespaces.
func (v *policyValidator) authorize(ctx context.Context, p *lifecyclev1.LifecyclePolicy) error {
	for i := range p.Spec.Hooks {
		for j := range p.Spec.Hooks[i].Steps {
			for _, needed := range needs(p.Namespace, &p.Spec.Hooks[i].Steps[j], stepPath(i, j)) {
				if err := v.access.require(ctx, needed.at, needed.right); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// need is a right that the author of a policy needs for one of its fields.
type need struct {
	at    *field.Path
	right authorizationv1.ResourceAttributes
}

func needs(namespace string, s *lifecyclev1.Step, at *field.Path) []need {
	var needs []need
	if s.Job != nil && s.Job.Target == lifecyclev1.TargetManagement {
		needs = append(needs, need{at.Child("job", "target"), authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: "create", Group: batchv1.GroupName, Resource: "jobs",
		}})
	}
	if s.Export != nil && s.Export.Namespace != "" && s.Export.Namespace != namespace {
		needs = append(needs, need{at.Child("export", "namespace"), authorizationv1.ResourceAttributes{
			Namespace: s.Export.Namespace, Verb: "create", Resource: "secrets",
		}})
	}
	if s.Apply == nil {
		return needs
	}
	for i, source := range s.Apply.Sources {
		if source.Kind == "Secret" {
			needs = append(needs, need{at.Child("apply", "sources").Index(i), authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: "get", Resource: "secrets", Name: source.Name,
			}})
		}
	}
	return needs
}

// horizon is how far ahead a window is looked at.
const horizon = 366 * 24 * time.Hour

// warnings tells what may be meant so, or may come later.
func (v *policyValidator) warnings(ctx context.Context, p *lifecyclev1.LifecyclePolicy) (ctrladmission.Warnings, error) {
	var warnings ctrladmission.Warnings
	denied, err := v.access.own.Missing(ctx, rights.Needs(p))
	if err != nil {
		return nil, err
	}
	if denied != nil {
		warnings = append(warnings, "steps wait for rights of the engine: "+denied.Error())
	}
	for i := range p.Spec.Hooks {
		for j := range p.Spec.Hooks[i].Steps {
			s := &p.Spec.Hooks[i].Steps[j]
			if denied == nil {
				missing, err := v.missing(ctx, p.Namespace, s, stepPath(i, j))
				if err != nil {
					return nil, err
				}
				warnings = append(warnings, missing...)
			}
			if s.Window == nil {
				continue
			}
			for _, w := range v.surprises(s.Window) {
				warnings = append(warnings, fmt.Sprintf("%s: %s", stepPath(i, j).Child("window"), w))
			}
		}
	}
	conflicts, err := v.conflicts(ctx, p)
	return append(warnings, conflicts...), err
}

// surprises are what a window does that whoever wrote it may not mean.
func (v *policyValidator) surprises(step *lifecyclev1.WindowStep) []string {
	window, err := schedule.Parse(*step)
	if err != nil {
		return nil
	}
	var all []string
	if window.Permanent(v.now(), horizon) {
		all = append(all, "the window never closes: it opens again before durationSeconds are over")
	}
	if window.EitherDay() {
		var openings []string
		for _, opening := range window.Openings(v.now(), 5) {
			openings = append(openings, opening.Format("Mon 2006-01-02 15:04 MST"))
		}
		all = append(all, fmt.Sprintf("day of month and day of week both restrict, so the window opens on days that match either: %s. "+
			"For days that match both, such as the first Saturday of a month, write 0 22 */100,1-7 * 6", strings.Join(openings, ", ")))
	}
	return all
}

// missing looks for the ConfigMaps and Secrets of a step. It reads metadata only.
func (v *policyValidator) missing(ctx context.Context, namespace string, s *lifecyclev1.Step, at *field.Path) (ctrladmission.Warnings, error) {
	var warnings ctrladmission.Warnings
	look := func(kind, name string, at *field.Path) error {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		err := v.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
		if apierrors.IsNotFound(err) {
			warnings = append(warnings, fmt.Sprintf("%s: there is no %s %s/%s yet; the step fails without it", at, kind, namespace, name))
			return nil
		}
		return err
	}
	if s.Apply != nil {
		for i, source := range s.Apply.Sources {
			if err := look(source.Kind, source.Name, at.Child("apply", "sources").Index(i)); err != nil {
				return nil, err
			}
		}
	}
	if s.Webhook != nil {
		if err := look("Secret", s.Webhook.SecretName, at.Child("webhook", "secretName")); err != nil {
			return nil, err
		}
	}
	return warnings, nil
}

// conflicts tells of Clusters that the policy is about in vain, and of other policies with
// windows that are never open together with those of this one.
func (v *policyValidator) conflicts(ctx context.Context, p *lifecyclev1.LifecyclePolicy) (ctrladmission.Warnings, error) {
	if p.Spec.Mode == lifecyclev1.ModeAudit {
		return nil, nil
	}
	policies := &lifecyclev1.LifecyclePolicyList{}
	if err := v.client.List(ctx, policies, client.InNamespace(p.Namespace)); err != nil {
		return nil, fmt.Errorf("list LifecyclePolicies: %w", err)
	}
	clusters := &clusterv1.ClusterList{}
	if err := v.client.List(ctx, clusters, client.InNamespace(p.Namespace)); err != nil {
		return nil, fmt.Errorf("list Clusters: %w", err)
	}
	others := []*lifecyclev1.LifecyclePolicy{p}
	for i := range policies.Items {
		if policies.Items[i].Name != p.Name {
			others = append(others, &policies.Items[i])
		}
	}
	var warnings ctrladmission.Warnings
	switch message, err := policy.NotEnabled(ctx, v.reader, p); {
	case err != nil && !apierrors.IsForbidden(err):
		return nil, err
	case err != nil:
		warnings = append(warnings, fmt.Sprintf("whether spec.enforcement has an effect cannot be known: %v", err))
	case message != "":
		warnings = append(warnings, message)
	}
	if message := policy.WithoutTopology(ctx, &v.gates.matcher, p, clusters.Items); message != "" {
		warnings = append(warnings, message)
	}
	for _, other := range others {
		if message := policy.Conflict(p, other, clusters.Items, v.now()); message != "" {
			warnings = append(warnings, message)
		}
	}
	return warnings, nil
}
