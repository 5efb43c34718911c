// Package expression executes expression steps: gates in CEL over the Cluster, the
// request of the hook, and the Hosts and Clusters of the namespace.
//
// It may import step and the CEL package.
package expression

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	cel "github.com/slipway-dev/slipway/internal/lifecycle/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hosts,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

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
	gate := in.Step.Expression
	program, err := cel.Compile(gate.Expression, cel.Step)
	if err != nil {
		return step.Result{}, step.Terminal(fmt.Errorf("expression: %w", err), "correct the policy, then retry")
	}
	variables, err := e.variables(ctx, in, program)
	if err != nil {
		return step.Result{}, err
	}
	truth, err := program.Eval(ctx, variables)
	var fault *cel.Error
	if err != nil && !errors.As(err, &fault) {
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
	after := time.Duration(ptr.Deref(gate.IntervalSeconds, defaultInterval)) * time.Second
	return step.Result{Message: message, After: after}, nil
}

// variables lists only what the expression mentions.
func (e *executor) variables(ctx context.Context, in step.Input, program *cel.Program) (map[string]any, error) {
	inputs := cel.Inputs{Cluster: in.Cluster, Hook: in.Run.Spec.Hook, Request: in.Run.Spec.Request}
	if program.Uses(cel.HostsVariable) {
		hosts := &infrav1.HostList{}
		if err := e.reader.List(ctx, hosts, client.InNamespace(in.Run.Namespace)); err != nil {
			return nil, fmt.Errorf("list Hosts: %w", err)
		}
		inputs.Hosts = hosts.Items
	}
	if program.Uses(cel.ClustersVariable) {
		clusters := &clusterv1.ClusterList{}
		if err := e.reader.List(ctx, clusters, client.InNamespace(in.Run.Namespace)); err != nil {
			return nil, fmt.Errorf("list Clusters: %w", err)
		}
		inputs.Clusters = clusters.Items
	}
	return cel.Variables(inputs)
}
