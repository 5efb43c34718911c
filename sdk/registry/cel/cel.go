package cel

import (
	"context"
	"errors"
	"fmt"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-dev/slipway/sdk/registry"
)

const (
	// MaxExpression is the longest expression that is compiled, in bytes.
	MaxExpression = 4 << 10
	// costLimit bounds one evaluation, in cel-go's units. It is what Kubernetes
	// grants an expression of an admission policy: about a tenth of a second.
	costLimit = 1_000_000
	// interruptEvery is after how many steps of a loop the context is looked at.
	interruptEvery = 100
)

var environment = sync.OnceValues(func() (*celgo.Env, error) {
	return celgo.NewEnv(
		celgo.Variable("object", celgo.DynType),
		celgo.CrossTypeNumericComparisons(true),
		celgo.DefaultUTCTimeZone(true),
		celgo.OptionalTypes(),
		ext.Strings(),
	)
})

// Compile compiles an expression that is true for the objects that an extension is
// called for. The variable object holds the object as in its YAML, for example
//
//	object.metadata.labels[?"env"].orValue("") == "prod"
//
// The error says what is wrong with the expression. An evaluation fails, and with
// it the call, when the expression fails, costs too much or yields no truth value.
func Compile(expression string) (registry.Condition, error) {
	if len(expression) > MaxExpression {
		return nil, fmt.Errorf("the expression has %d bytes, more than %d", len(expression), MaxExpression)
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	if kind := ast.OutputType(); !kind.IsExactType(celgo.BoolType) && !kind.IsExactType(celgo.DynType) {
		return nil, fmt.Errorf("the expression yields a %s, want a bool", kind)
	}
	program, err := env.Program(ast, celgo.EvalOptions(celgo.OptOptimize), celgo.CostLimit(costLimit), celgo.InterruptCheckFrequency(interruptEvery))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, object registry.Object) (bool, error) {
		content, err := contentOf(object)
		if err != nil {
			return false, err
		}
		value, _, err := program.ContextEval(ctx, map[string]any{"object": content})
		if err != nil {
			return false, fmt.Errorf("the match condition fails: %w", err)
		}
		match, ok := value.Value().(bool)
		if !ok {
			return false, fmt.Errorf("the match condition yields a %s, want a bool", value.Type().TypeName())
		}
		return match, nil
	}, nil
}

var errNoObject = errors.New("the object of a match condition is nil")

func contentOf(object registry.Object) (map[string]any, error) {
	switch typed := object.(type) {
	case nil:
		return nil, errNoObject
	case runtime.Unstructured:
		return typed.UnstructuredContent(), nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("read the object for its match condition: %w", err)
	}
	return content, nil
}
