package step

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
)

const defaultExpressionInterval = 30 // seconds

type expressionKind struct{}

var _ = register(expressionKind{})

// Name implements Kind.
func (expressionKind) Name() string { return "expression" }

// Manual implements Kind.
func (expressionKind) Manual() (done, workload string) {
	return "a CEL expression over `cluster`, `request`, `hosts` and `clusters` is true", "no"
}

// Is implements Kind.
func (expressionKind) Is(s *lifecyclev1.Step) bool { return s.Expression != nil }

// Facts implements Kind.
func (expressionKind) Facts(s *lifecyclev1.Step) Facts {
	return Facts{
		Doing: "waits" + untilTrue(" until ", s.Expression.Message, s.Expression.Expression), Approval: "",
		Limit: 0, Waits: true, FollowsCluster: true, Workload: "", Lasting: nil,
	}
}

// untilTrue says that an expression is waited for, in the words of its author if there are any.
func untilTrue(until, message, text string) string {
	if message != "" {
		return fmt.Sprintf(" (%s)", message)
	}
	return until + Cut(strings.Join(strings.Fields(text), " "), 160)
}

// Needs implements Kind.
func (expressionKind) Needs(string, *lifecyclev1.Step, *field.Path) Needs {
	return Needs{Reads: nil, Engine: nil, Author: nil}
}

// Validate implements Kind.
func (expressionKind) Validate(s *lifecyclev1.Step, at *field.Path) field.ErrorList {
	return ValidateExpression(s.Expression.Expression, expression.Step, at.Child("expression", "expression"))
}

// Execute is done when the expression is true. One that cannot be evaluated, such as
// for a field that is not there yet, is not true.
func (expressionKind) Execute(ctx context.Context, in Input) (Result, error) {
	wanted := in.Step.Expression
	program, err := expression.Compile(wanted.Expression, expression.Step)
	if err != nil {
		return Result{}, Terminal(fmt.Errorf("expression: %w", err), "correct the policy, then retry")
	}
	truth, fault, err := evaluate(ctx, in, program, nil)
	if err != nil {
		return Result{}, err
	}
	if truth {
		return Result{Done: true, Message: "the expression is true"}, nil
	}
	message := "the expression is false"
	if fault != nil {
		message = fmt.Sprintf("the expression cannot be evaluated: %v", fault)
	}
	if in.Run.Spec.Mode == lifecyclev1.ModeAudit {
		return Result{Done: true, Message: "would wait: " + message}, nil
	}
	after := time.Duration(ptr.Deref(wanted.IntervalSeconds, defaultExpressionInterval)) * time.Second
	return Result{Message: message, After: after}, nil
}

// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hosts,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// evaluate says whether an expression is true for a step, over the objects that the step
// selects, if it does. An expression that cannot be evaluated, such as for a field
// that is not there yet, is not true, and fault tells why. An error is a failure to
// read, or the end of ctx. Hosts and Clusters are listed only if the expression
// mentions them; the reader may be a cache.
func evaluate(ctx context.Context, in Input, program *expression.Program, objects []unstructured.Unstructured) (holds bool, fault *expression.Error, err error) {
	variables, err := celVariables(ctx, in, program, objects)
	if err != nil {
		return false, nil, err
	}
	holds, err = program.Eval(ctx, variables)
	if errors.As(err, &fault) {
		return false, fault, nil
	}
	return holds, nil, err
}

func celVariables(ctx context.Context, in Input, program *expression.Program, objects []unstructured.Unstructured) (map[string]any, error) {
	inputs := expression.Inputs{Cluster: in.Cluster, Hook: in.Run.Spec.Hook, Request: in.Run.Spec.Request, Objects: objects}
	if program.Uses(expression.HostsVariable) {
		hosts := &infrav1.HostList{}
		if err := in.Env.Cache.List(ctx, hosts, client.InNamespace(in.Run.Namespace)); err != nil {
			return nil, fmt.Errorf("list Hosts: %w", err)
		}
		inputs.Hosts = hosts.Items
	}
	if program.Uses(expression.ClustersVariable) {
		clusters := &clusterv1.ClusterList{}
		if err := in.Env.Cache.List(ctx, clusters, client.InNamespace(in.Run.Namespace)); err != nil {
			return nil, fmt.Errorf("list Clusters: %w", err)
		}
		inputs.Clusters = clusters.Items
	}
	return expression.Variables(inputs)
}
