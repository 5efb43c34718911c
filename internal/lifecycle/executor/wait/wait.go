// Package wait executes wait steps: objects of the workload cluster must satisfy an
// expression in CEL.
//
// It may import the API, step, gate, expression and workload.
package wait

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/gate"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/lifecycle/workload"
)

const (
	// MaxObjects bounds the objects of one step: they are in memory together.
	MaxObjects = 5000

	defaultInterval = 5 // seconds
)

// New returns the executor of wait steps. It lists Hosts and Clusters with reader,
// which may be a cache.
func New(reader client.Reader, clients workload.Clients) step.Executor {
	return &executor{reader: reader, clients: clients}
}

type executor struct {
	reader  client.Reader
	clients workload.Clients
}

// Execute implements step.Executor. An expression that cannot be evaluated, such as
// for a field that is not there yet, is not true.
func (e *executor) Execute(ctx context.Context, in step.Input) (step.Result, error) {
	s := in.Step.Wait
	program, err := expression.Compile(s.Expression, expression.Wait)
	if err != nil {
		return step.Result{}, step.Terminal(fmt.Errorf("wait.expression: %w", err), "correct the policy, then retry")
	}
	if in.Run.Spec.Mode == lifecyclev1.ModeAudit {
		return step.Result{Done: true, Message: fmt.Sprintf("would wait for objects of kind %s", s.Kind)}, nil
	}
	objects, err := e.objects(ctx, in)
	if meta.IsNoMatchError(err) {
		return waiting(s, fmt.Sprintf("the workload cluster does not know the kind %s of %s", s.Kind, s.APIVersion)), nil
	}
	if err != nil {
		return step.Result{}, err
	}
	truth, fault, err := gate.Evaluate(ctx, e.reader, in, program, objects)
	if err != nil {
		return step.Result{}, err
	}
	if truth {
		return step.Result{Done: true, Message: fmt.Sprintf("the expression is true for %d objects", len(objects))}, nil
	}
	why := fmt.Sprintf("the expression is false for %d objects of kind %s", len(objects), s.Kind)
	if fault != nil {
		why = fmt.Sprintf("the expression cannot be evaluated for %d objects of kind %s: %v", len(objects), s.Kind, fault)
	}
	return waiting(s, why), nil
}

func waiting(s *lifecyclev1.WaitStep, why string) step.Result {
	if s.Message != "" {
		why = s.Message + ": " + why
	}
	return step.Result{Message: why, After: time.Duration(ptr.Deref(s.IntervalSeconds, defaultInterval)) * time.Second}
}

// objects returns what the step selects in the workload cluster.
func (e *executor) objects(ctx context.Context, in step.Input) ([]unstructured.Unstructured, error) {
	s := in.Step.Wait
	options := &client.ListOptions{Namespace: s.Namespace}
	if s.Name != "" {
		options.FieldSelector = fields.OneTermEqualSelector("metadata.name", s.Name)
	}
	if s.LabelSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
		if err != nil {
			return nil, step.Terminal(fmt.Errorf("wait.labelSelector: %w", err), "correct the policy, then retry")
		}
		options.LabelSelector = selector
	}
	cluster, err := e.clients.For(ctx, client.ObjectKeyFromObject(in.Cluster))
	if err != nil {
		return nil, err
	}
	var objects []unstructured.Unstructured
	err = cluster.Each(ctx, schema.FromAPIVersionAndKind(s.APIVersion, s.Kind), func(o *unstructured.Unstructured) error {
		if len(objects) == MaxObjects {
			return step.Terminal(fmt.Errorf("the step selects more than %d objects of kind %s", MaxObjects, s.Kind),
				"set wait.namespace or wait.labelSelector so that it selects fewer, then retry")
		}
		// Large, and no part of what an object is.
		o.SetManagedFields(nil)
		objects = append(objects, *o)
		return nil
	}, options)
	return objects, err
}
