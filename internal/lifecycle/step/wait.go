package step

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
	"github.com/slipway-dev/slipway/internal/lifecycle/workload"
)

const (
	// MaxObjects bounds the objects of one step: they are in memory together.
	MaxWaitObjects = 5000

	defaultWaitInterval = 5 // seconds
)

// New returns the executor of wait steps. It lists Hosts and Clusters with reader,
// which may be a cache.
func NewWait(reader client.Reader, clients workload.Clients) Executor {
	return &waitExecutor{reader: reader, clients: clients}
}

type waitExecutor struct {
	reader  client.Reader
	clients workload.Clients
}

// Execute implements Executor. An expression that cannot be evaluated, such as
// for a field that is not there yet, is not true.
func (e *waitExecutor) Execute(ctx context.Context, in Input) (Result, error) {
	s := in.Step.Wait
	program, err := expression.Compile(s.Expression, expression.Wait)
	if err != nil {
		return Result{}, Terminal(fmt.Errorf("wait.expression: %w", err), "correct the policy, then retry")
	}
	if in.Run.Spec.Mode == lifecyclev1.ModeAudit {
		return Result{Done: true, Message: fmt.Sprintf("would wait for objects of kind %s", s.Kind)}, nil
	}
	objects, err := e.objects(ctx, in)
	if meta.IsNoMatchError(err) {
		return waitingResult(s, fmt.Sprintf("the workload cluster does not know the kind %s of %s", s.Kind, s.APIVersion)), nil
	}
	if err != nil {
		return Result{}, err
	}
	truth, fault, err := evaluate(ctx, e.reader, in, program, objects)
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

// objects returns what the step selects in the workload cluster.
func (e *waitExecutor) objects(ctx context.Context, in Input) ([]unstructured.Unstructured, error) {
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
	cluster, err := e.clients.For(ctx, client.ObjectKeyFromObject(in.Cluster))
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
