package admission

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/policy"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
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
		tried, err := v.try(ctx, p)
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

// try has the API server validate by a dry run what steps make there, wherever they will: the
// rules are the same. It is made in the engine's own namespace, for which it has the right.
func (v *policyValidator) try(ctx context.Context, p *lifecyclev1.LifecyclePolicy) (field.ErrorList, error) {
	own, err := v.access.own.Namespace(ctx)
	if err != nil {
		return nil, err
	}
	var errs field.ErrorList
	for i := range p.Spec.Hooks {
		for j := range p.Spec.Hooks[i].Steps {
			s := &p.Spec.Hooks[i].Steps[j]
			trier, ok := step.Of(s).(step.Trier)
			if !ok {
				continue
			}
			faults, err := trier.Try(ctx, v.client, cmp.Or(own, p.Namespace), s, step.Path(i, j))
			if err != nil {
				return nil, err
			}
			errs = append(errs, faults...)
		}
	}
	return errs, nil
}

// authorize keeps a policy from doing for its author what the author may not do: run
// Jobs in the management cluster, send what is in a Secret elsewhere, and write Secrets
// of other namespaces.
func (v *policyValidator) authorize(ctx context.Context, p *lifecyclev1.LifecyclePolicy) error {
	for _, needed := range step.Needed(p).Author {
		if err := v.access.require(ctx, needed.At, needed.Right); err != nil {
			return err
		}
	}
	return nil
}

// warnings tells what may be meant so, or may come later.
func (v *policyValidator) warnings(ctx context.Context, p *lifecyclev1.LifecyclePolicy) (ctrladmission.Warnings, error) {
	var warnings ctrladmission.Warnings
	denied, err := v.access.own.Missing(ctx, step.Needed(p).Engine)
	if err != nil {
		return nil, err
	}
	if denied != nil {
		warnings = append(warnings, "steps wait for rights of the engine: "+denied.Error())
	}
	for i := range p.Spec.Hooks {
		for j := range p.Spec.Hooks[i].Steps {
			s := &p.Spec.Hooks[i].Steps[j]
			kind := step.Of(s)
			if denied == nil {
				missing, err := v.missing(ctx, p.Namespace, kind.Needs(p.Namespace, s, step.Path(i, j)).Reads)
				if err != nil {
					return nil, err
				}
				warnings = append(warnings, missing...)
			}
			if warner, ok := kind.(step.Warner); ok {
				for _, w := range warner.Warnings(s, v.now()) {
					warnings = append(warnings, fmt.Sprintf("%s: %s", step.Path(i, j).Child(kind.Name()), w))
				}
			}
		}
	}
	conflicts, err := v.conflicts(ctx, p)
	return append(warnings, conflicts...), err
}

// missing looks for the ConfigMaps and Secrets of a step. It reads metadata only.
func (v *policyValidator) missing(ctx context.Context, namespace string, reads []step.Reference) (ctrladmission.Warnings, error) {
	var warnings ctrladmission.Warnings
	for _, ref := range reads {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(ref.Kind))
		err := v.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, object)
		if apierrors.IsNotFound(err) {
			warnings = append(warnings, fmt.Sprintf("%s: there is no %s %s/%s yet; the step fails without it", ref.At, ref.Kind, namespace, ref.Name))
		} else if err != nil {
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

// Validate returns the faults of a policy that can be found without the API server;
// nil when there are none.
func Validate(policy *lifecyclev1.LifecyclePolicy) error { return validate(policy).ToAggregate() }

func validate(policy *lifecyclev1.LifecyclePolicy) field.ErrorList {
	spec := field.NewPath("spec")
	errs := step.ValidateSelector(policy.Spec.ClusterSelector, spec.Child("clusterSelector"))
	if policy.Spec.MatchCondition != "" {
		errs = append(errs, step.ValidateExpression(policy.Spec.MatchCondition, expression.Match, spec.Child("matchCondition"))...)
	}
	for i := range policy.Spec.Hooks {
		hook := &policy.Spec.Hooks[i]
		for j := range hook.Steps {
			errs = append(errs, step.Validate(hook.Hook, &hook.Steps[j], step.Path(i, j))...)
		}
	}
	return errs
}
