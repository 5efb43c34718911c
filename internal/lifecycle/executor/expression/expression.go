// Package expression executes expression steps: gates in CEL over the Cluster, the
// request of the hook, and the Hosts and Clusters of the namespace.
//
// It may import step, gate and the CEL package.
package expression

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	cel "github.com/slipway-dev/slipway/internal/lifecycle/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/gate"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

const defaultInterval = 30 // seconds

type executor struct {
	reader client.Reader
}

// New returns the executor of expression steps; the reader, which may be a cache,
// lists Hosts and Clusters.
func New(reader client.Reader) step.Executor { return &executor{reader: reader} }

// Execute is done when the expression is true. One that cannot be evaluated, such as
// for a field that is not there yet, is not true.
func (e *executor) Execute(ctx context.Context, in step.Input) (step.Result, error) {
	wanted := in.Step.Expression
	program, err := cel.Compile(wanted.Expression, cel.Step)
	if err != nil {
		return step.Result{}, step.Terminal(fmt.Errorf("expression: %w", err), "correct the policy, then retry")
	}
	truth, fault, err := gate.Evaluate(ctx, e.reader, in, program, nil)
	if err != nil {
		return step.Result{}, err
	}
	if truth {
		return step.Result{Done: true, Message: "the expression is true"}, nil
	}
	message := "the expression is false"
	if fault != nil {
		message = fmt.Sprintf("the expression cannot be evaluated: %v", fault)
	}
	if in.Run.Spec.Mode == lifecyclev1.ModeAudit {
		return step.Result{Done: true, Message: "would wait: " + message}, nil
	}
	after := time.Duration(ptr.Deref(wanted.IntervalSeconds, defaultInterval)) * time.Second
	return step.Result{Message: message, After: after}, nil
}
