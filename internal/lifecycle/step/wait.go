package step

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
)

const (
	// MaxWaitObjects bounds the objects of one step: they are in memory together.
	MaxWaitObjects = 5000

	defaultWaitInterval = 5 // seconds
)

type waitKind struct{}

var _ = register(waitKind{})

// Name implements Kind.
func (waitKind) Name() string { return "wait" }

// Manual implements Kind.
func (waitKind) Manual() (done, workload string) {
	return "a CEL expression over objects of the cluster (`objects`) is true", "yes"
}

// Is implements Kind.
func (waitKind) Is(s *lifecyclev1.Step) bool { return s.Wait != nil }

// Facts implements Kind.
func (waitKind) Facts(s *lifecyclev1.Step) Facts {
	return Facts{
		Doing: "waits" + untilTrue(fmt.Sprintf(" for %s until ", s.Wait.Kind), s.Wait.Message, s.Wait.Expression), Approval: "",
		Limit: defaultLimit, Waits: true, FollowsCluster: false, Workload: "wait", Lasting: nil,
	}
}

// Needs implements Kind.
func (waitKind) Needs(namespace string, _ *lifecyclev1.Step, _ *field.Path) Needs {
	return Needs{Reads: nil, Engine: kubeconfig(namespace), Author: nil}
}

// Validate implements Kind.
func (waitKind) Validate(s *lifecyclev1.Step, at *field.Path) field.ErrorList {
	w := s.Wait
	at = at.Child("wait")
	errs := append(validateKind(w.APIVersion, w.Kind, at), ValidateSelector(w.LabelSelector, at.Child("labelSelector"))...)
	errs = append(errs, ValidateExpression(w.Expression, expression.Wait, at.Child("expression"))...)
	if w.Namespace != "" {
		errs = append(errs, matches(w.Namespace, validation.IsDNS1123Label, at.Child("namespace"))...)
	}
	if w.Name != "" {
		errs = append(errs, matches(w.Name, content.IsPathSegmentName, at.Child("name"))...)
		if w.LabelSelector != nil {
			errs = append(errs, field.Forbidden(at.Child("labelSelector"), "name selects the object already: set one of the two"))
		}
	}
	return errs
}

// Execute implements Kind. An expression that cannot be evaluated, such as
// for a field that is not there yet, is not true.
func (waitKind) Execute(ctx context.Context, in Input) (Result, error) {
	s := in.Step.Wait
	program, err := expression.Compile(s.Expression, expression.Wait)
	if err != nil {
		return Result{}, Terminal(fmt.Errorf("wait.expression: %w", err), "correct the policy, then retry")
	}
	if in.Run.Spec.Mode == lifecyclev1.ModeAudit {
		return Result{Done: true, Message: fmt.Sprintf("would wait for objects of kind %s", s.Kind)}, nil
	}
	objects, err := waitObjects(ctx, in)
	if meta.IsNoMatchError(err) {
		return waitingResult(s, fmt.Sprintf("the workload cluster does not know the kind %s of %s", s.Kind, s.APIVersion)), nil
	}
	if err != nil {
		return Result{}, err
	}
	truth, fault, err := evaluate(ctx, in, program, objects)
	if err != nil {
		return Result{}, err
	}
	if truth {
		return Result{Done: true, Message: fmt.Sprintf("the expression is true for %d objects", len(objects))}, nil
	}
	why := fmt.Sprintf("the expression is false for %d objects of kind %s", len(objects), s.Kind)
	if fault != nil {
		why = fmt.Sprintf("the expression cannot be evaluated for %d objects of kind %s: %v", len(objects), s.Kind, fault)
	}
	return waitingResult(s, why), nil
}

func waitingResult(s *lifecyclev1.WaitStep, why string) Result {
	if s.Message != "" {
		why = s.Message + ": " + why
	}
	return Result{Message: why, After: time.Duration(ptr.Deref(s.IntervalSeconds, defaultWaitInterval)) * time.Second}
}

// waitObjects returns what the step selects in the workload cluster.
func waitObjects(ctx context.Context, in Input) ([]unstructured.Unstructured, error) {
	s := in.Step.Wait
	options := &client.ListOptions{Namespace: s.Namespace}
	if s.Name != "" {
		options.FieldSelector = fields.OneTermEqualSelector("metadata.name", s.Name)
	}
	if s.LabelSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
		if err != nil {
			return nil, Terminal(fmt.Errorf("wait.labelSelector: %w", err), "correct the policy, then retry")
		}
		options.LabelSelector = selector
	}
	cluster, err := in.Env.Workload.For(ctx, client.ObjectKeyFromObject(in.Cluster))
	if err != nil {
		return nil, err
	}
	var objects []unstructured.Unstructured
	err = cluster.Each(ctx, schema.FromAPIVersionAndKind(s.APIVersion, s.Kind), func(o *unstructured.Unstructured) error {
		if len(objects) == MaxWaitObjects {
			return Terminal(fmt.Errorf("the step selects more than %d objects of kind %s", MaxWaitObjects, s.Kind),
				"set wait.namespace or wait.labelSelector so that it selects fewer, then retry")
		}
		// Large, and no part of what an object is.
		o.SetManagedFields(nil)
		objects = append(objects, *o)
		return nil
	}, options)
	return objects, err
}
