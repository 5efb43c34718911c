package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// +kubebuilder:webhook:verbs=create;update,path=/mutate-lifecycle-slipway-dev-v1alpha1-lifecyclerun,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=lifecycle.slipway.dev,resources=lifecycleruns,versions=v1alpha1,name=decision.lifecyclerun.lifecycle.slipway.dev,sideEffects=None,admissionReviewVersions=v1

// runDecider turns annotations of LifecycleRuns into decisions, and keeps everybody
// but this program from changing what a run records.
type runDecider struct {
	access *access
	now    func() time.Time
}

// Default implements admission.Defaulter.
func (d *runDecider) Default(ctx context.Context, run *lifecyclev1.LifecycleRun) error {
	request, err := ctrladmission.RequestFromContext(ctx)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("expected an admission request in the context: %v", err))
	}
	if request.Operation != admissionv1.Update {
		return d.authorizeCreate(ctx, request, run)
	}
	if err := d.protect(ctx, request, run); err != nil {
		return err
	}
	for _, what := range lifecyclev1.DecisionTypes() {
		value, found := run.Annotations[what.Annotation()]
		if !found {
			continue
		}
		if err := d.decide(ctx, request, run, what, value); err != nil {
			return err
		}
		delete(run.Annotations, what.Annotation())
	}
	return nil
}

// importVerb on LifecycleRuns allows to create them with what they record, as
// clusterctl move and a restored backup do. No role of this project grants it.
const importVerb = "import"

// authorizeCreate lets nobody but the engine make a run, which could carry approvals
// that nobody gave, unless the user may import runs.
func (d *runDecider) authorizeCreate(ctx context.Context, request ctrladmission.Request, run *lifecyclev1.LifecycleRun) error {
	for _, what := range lifecyclev1.DecisionTypes() {
		if value, found := run.Annotations[what.Annotation()]; found {
			return invalid(run, what, value, errors.New("a decision is about a run that is there: annotate it afterwards"))
		}
	}
	engine, err := d.access.isEngine(ctx, request.UserInfo)
	if err != nil || engine {
		return err
	}
	return d.access.require(ctx, field.NewPath("spec"), runAttributes(run, importVerb, ""))
}

func runAttributes(run *lifecyclev1.LifecycleRun, verb, subresource string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{
		Namespace: run.Namespace, Verb: verb, Group: lifecyclev1.GroupVersion.Group, Resource: "lifecycleruns", Subresource: subresource, Name: run.Name,
	}
}

// protect refuses a changed spec, and changed metadata: without its owner a run does
// not count for its Cluster any more, and is in the way of the next.
func (d *runDecider) protect(ctx context.Context, request ctrladmission.Request, run *lifecyclev1.LifecycleRun) error {
	before := &lifecyclev1.LifecycleRun{}
	if err := json.Unmarshal(request.OldObject.Raw, before); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("decode the LifecycleRun as it was: %v", err))
	}
	sameSpec, sameMetadata := equality.Semantic.DeepEqual(before.Spec, run.Spec), sameMetadata(before, run)
	if sameSpec && sameMetadata {
		return nil
	}
	engine, err := d.access.isEngine(ctx, request.UserInfo)
	if err != nil || engine {
		return err
	}
	if !sameSpec {
		return apierrors.NewForbidden(lifecyclev1.GroupVersion.WithResource("lifecycleruns").GroupResource(), run.Name,
			fmt.Errorf("spec: it is the record of slipway-lifecycle, which nobody else changes; decide by the annotations %s, %s and %s",
				lifecyclev1.ApproveAnnotation, lifecyclev1.SkipAnnotation, lifecyclev1.RetryAnnotation))
	}
	return d.authorizeMetadata(ctx, run)
}

// authorizeMetadata asks for what Kubernetes asks of who changes owners, update of the
// subresource finalizers, which its garbage collector has, or for the verb import.
func (d *runDecider) authorizeMetadata(ctx context.Context, run *lifecyclev1.LifecycleRun) error {
	allowed, err := d.access.allowed(ctx, runAttributes(run, "update", "finalizers"))
	if err != nil || allowed {
		return err
	}
	return d.access.require(ctx, field.NewPath("metadata"), runAttributes(run, importVerb, ""))
}

// sameMetadata says whether nothing was changed but the annotations of decisions.
func sameMetadata(before, after *lifecyclev1.LifecycleRun) bool {
	annotations := maps.Clone(after.Annotations)
	for _, what := range lifecyclev1.DecisionTypes() {
		delete(annotations, what.Annotation())
	}
	return equality.Semantic.DeepEqual(before.Labels, after.Labels) &&
		equality.Semantic.DeepEqual(before.Annotations, annotations) &&
		equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) &&
		equality.Semantic.DeepEqual(before.Finalizers, after.Finalizers)
}

// decide appends the decision to the run, if its author may make it.
func (d *runDecider) decide(ctx context.Context, request ctrladmission.Request, run *lifecyclev1.LifecycleRun, what lifecyclev1.DecisionType, value string) error {
	err := d.access.require(ctx, annotationPath(what), authorizationv1.ResourceAttributes{
		Namespace: run.Namespace, Verb: what.Verb(), Group: lifecyclev1.GroupVersion.Group, Resource: "lifecyclepolicies", Name: run.Spec.PolicyName,
	})
	if err != nil {
		return err
	}
	decision, err := decide(run, what, value, request.UserInfo.Username, d.now())
	if err != nil {
		return invalid(run, what, value, err)
	}
	if decision != nil {
		run.Spec.Decisions = append(run.Spec.Decisions, *decision)
	}
	return nil
}

func annotationPath(what lifecyclev1.DecisionType) *field.Path {
	return field.NewPath("metadata", "annotations").Key(what.Annotation())
}

func invalid(run *lifecyclev1.LifecycleRun, what lifecyclev1.DecisionType, value string, err error) error {
	return apierrors.NewInvalid(lifecyclev1.GroupVersion.WithKind("LifecycleRun").GroupKind(), run.Name,
		field.ErrorList{field.Invalid(annotationPath(what), value, err.Error())})
}
