package expression

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// Program is a compiled expression. It may be used by many goroutines.
type Program struct {
	program cel.Program
	ast     *cel.Ast
	uses    map[string]bool
}

// Compile checks an expression: its syntax, its variables, that it is a truth value,
// and what it may cost. A fault of the expression is an *Error.
func Compile(expression string, kind Kind) (*Program, error) {
	environments, err := environments()
	if err != nil {
		return nil, err
	}
	env, known := environments[kind]
	if !known {
		return nil, fmt.Errorf("unknown kind of expression %d", kind)
	}
	checked, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, compileError(issues)
	}
	if out := checked.OutputType(); !out.IsExactType(cel.BoolType) && !out.IsExactType(cel.DynType) {
		return nil, &Error{Line: 1, Column: 1, Message: fmt.Sprintf("must be true or false, but is %s", out)}
	}
	if err := checkCost(env, checked, kind.costLimit()); err != nil {
		return nil, err
	}
	program, err := env.Program(checked,
		cel.CostLimit(kind.costLimit()),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		return nil, &Error{Line: 1, Column: 1, Message: err.Error()}
	}
	return &Program{program: program, ast: checked, uses: variablesOf(checked)}, nil
}

func checkCost(env *cel.Env, checked *cel.Ast, limit uint64) error {
	estimate, err := env.EstimateCost(checked, &library.CostEstimator{SizeEstimator: sizes{}})
	if err != nil {
		return &Error{Line: 1, Column: 1, Message: fmt.Sprintf("its cost cannot be estimated: %v", err)}
	}
	if estimate.Max <= limit {
		return nil
	}
	return &Error{Line: 1, Column: 1, Message: fmt.Sprintf(
		"may cost up to %d in a large namespace, more than the limit of %d; loop over fewer lists within each other", estimate.Max, limit)}
}

// variablesOf finds the variables that an expression mentions. Those of its loops are
// not known to the environment, and do no harm.
func variablesOf(checked *cel.Ast) map[string]bool {
	uses := map[string]bool{}
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind {
			uses[e.AsIdent()] = true
		}
	}))
	return uses
}

// Uses says whether the expression mentions a variable: what it does not mention need
// not be read.
func (p *Program) Uses(variable string) bool { return p.uses[variable] }

// Eval evaluates the expression over its variables, see Variables. A fault of the
// expression, such as a field that is not there, is an *Error; one that wraps ErrCost
// is too expensive.
func (p *Program) Eval(ctx context.Context, variables map[string]any) (bool, error) {
	value, details, err := p.program.ContextEval(ctx, variables)
	if err != nil {
		if ctxErr := ctx.Err(); ctxErr != nil {
			return false, ctxErr
		}
		return false, p.evalError(err, details)
	}
	truth, ok := value.(types.Bool)
	if !ok {
		return false, &Error{Line: 1, Column: 1, Message: fmt.Sprintf("must be true or false, but is %s", value.Type().TypeName())}
	}
	return bool(truth), nil
}

// ErrCost is wrapped by the error of an expression that cost more than its limit while
// it ran.
var ErrCost = errors.New("cost limit exceeded")

// Error is a fault of an expression.
type Error struct {
	// Line and Column are where it is, both counted from 1.
	Line, Column int
	// Message tells what is wrong.
	Message string
	// Err is the sentinel that it wraps, if any.
	Err error
}

// Error returns the position and the message.
func (e *Error) Error() string {
	if e.Line == 1 {
		return fmt.Sprintf("at character %d: %s", e.Column, e.Message)
	}
	return fmt.Sprintf("at line %d, character %d: %s", e.Line, e.Column, e.Message)
}

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Err }

// compileError is the first fault with its position; faults after it are often its
// consequence.
func compileError(issues *cel.Issues) error {
	found := issues.Errors()
	if len(found) == 0 {
		return &Error{Line: 1, Column: 1, Message: issues.Err().Error()}
	}
	first := found[0]
	line, column := max(first.Location.Line(), 1), max(first.Location.Column(), 0)+1
	// The container is an implementation's matter: there is none here.
	message := strings.ReplaceAll(first.Message, " (in container '')", "")
	return &Error{Line: line, Column: column, Message: message}
}

func (p *Program) evalError(err error, details *cel.EvalDetails) error {
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		message := "costs more than its limit"
		if details != nil && details.ActualCost() != nil {
			message = fmt.Sprintf("cost %d, more than its limit", *details.ActualCost())
		}
		return &Error{Line: 1, Column: 1, Message: message + "; loop over fewer objects", Err: ErrCost}
	}
	fault := &Error{Line: 1, Column: 1, Message: err.Error()}
	var located *types.Err
	if errors.As(err, &located) {
		at := p.ast.NativeRep().SourceInfo().GetStartLocation(located.NodeID())
		fault.Line, fault.Column = max(at.Line(), 1), max(at.Column(), 0)+1
	}
	return fault
}
