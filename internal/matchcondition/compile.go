package matchcondition

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-dev/slipway/sdk/registry"
)

const (
	// costLimit is what one evaluation may cost, in CEL's units: a tenth of what
	// Kubernetes allows an admission policy, some 0.2 s.
	costLimit = 1_000_000
	// interruptEvery is the number of loop steps after which a context that
	// ended is noticed.
	interruptEvery = 100
)

// Compile compiles an expression over the variable object that says whether an
// extension is called for it. The error names what is wrong with the expression.
// The condition's error says that it could not be evaluated for an object, for
// example because a field is missing that it does not test with has().
func Compile(expression string) (registry.Condition, error) {
	env, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.OptionalTypes(), ext.Strings())
	if err != nil {
		return nil, fmt.Errorf("prepare CEL: %w", err)
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	if out := ast.OutputType(); !out.IsExactType(cel.BoolType) && !out.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("the expression is of type %s, want bool", out)
	}
	program, err := env.Program(ast, cel.CostLimit(costLimit), cel.InterruptCheckFrequency(interruptEvery))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, object registry.Object) (bool, error) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return false, fmt.Errorf("match condition: %w", err)
		}
		value, _, err := program.ContextEval(ctx, map[string]any{"object": content})
		if err != nil {
			return false, fmt.Errorf("match condition: %w", err)
		}
		match, ok := value.Value().(bool)
		if !ok {
			return false, errors.New("match condition: the value is not a bool")
		}
		return match, nil
	}, nil
}
