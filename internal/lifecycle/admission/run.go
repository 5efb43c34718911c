package admission

import (
	"context"
	"errors"
	"fmt"
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
	if request.Operation == admissionv1.Update {
		if err := d.protect(ctx, request, run); err != nil {
			return err
		}
	}
	for _, k := range kinds {
		value, found := run.Annotations[k.annotation]
		if !found {
			continue
		}
		if request.Operation != admissionv1.Update {
			return invalid(run, k, value, errors.New("a decision is about a run that is there: annotate it afterwards"))
		}
		if err := d.decide(ctx, request, run, k, value); err != nil {
			return err
		}
		delete(run.Annotations, k.annotation)
	}
	return nil
}

// protect refuses a changed spec.
func (d *runDecider) protect(ctx context.Context, request ctrladmission.Request, run *lifecyclev1.LifecycleRun) error {
	before := &lifecyclev1.LifecycleRun{}
	if err := json.Unmarshal(request.OldObject.Raw, before); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("decode the LifecycleRun as it was: %v", err))
	}
	if equality.Semantic.DeepEqual(before.Spec, run.Spec) {
		return nil
	}
	engine, err := d.access.isEngine(ctx, request.UserInfo)
	if err != nil || engine {
		return err
	}
	return apierrors.NewForbidden(lifecyclev1.GroupVersion.WithResource("lifecycleruns").GroupResource(), run.Name,
		fmt.Errorf("spec: it is the record of slipway-lifecycle, which nobody else changes; decide by the annotations %s, %s and %s",
			lifecyclev1.ApproveAnnotation, lifecyclev1.SkipAnnotation, lifecyclev1.RetryAnnotation))
}

// decide appends the decision to the run, if its author may make it.
func (d *runDecider) decide(ctx context.Context, request ctrladmission.Request, run *lifecyclev1.LifecycleRun, k kind, value string) error {
	err := d.access.require(ctx, annotationPath(k), authorizationv1.ResourceAttributes{
		Namespace: run.Namespace, Verb: k.verb, Group: lifecyclev1.GroupVersion.Group, Resource: "lifecyclepolicies", Name: run.Spec.PolicyName,
	})
	if err != nil {
		return err
	}
	decision, err := decide(run, k.decision, value, request.UserInfo.Username, d.now())
	if err != nil {
		return invalid(run, k, value, err)
	}
	if decision != nil {
		run.Spec.Decisions = append(run.Spec.Decisions, *decision)
	}
	return nil
}

func annotationPath(k kind) *field.Path {
	return field.NewPath("metadata", "annotations").Key(k.annotation)
}

func invalid(run *lifecyclev1.LifecycleRun, k kind, value string, err error) error {
	return apierrors.NewInvalid(lifecyclev1.GroupVersion.WithKind("LifecycleRun").GroupKind(), run.Name,
		field.ErrorList{field.Invalid(annotationPath(k), value, err.Error())})
}
