package client

import (
	"fmt"
	"strings"
	"time"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
)

// Reason is why a handler could not be called.
type Reason string

const (
	// ReasonUnreachable means that no response arrived: name resolution,
	// connection or TLS failed, or the connection broke.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonTimeout means that no response arrived in time.
	ReasonTimeout Reason = "Timeout"
	// ReasonHTTPStatus means a response with an HTTP status other than 200.
	ReasonHTTPStatus Reason = "HTTPStatus"
	// ReasonInvalidResponse means a response that is not the JSON of the hook.
	ReasonInvalidResponse Reason = "InvalidResponse"
	// ReasonTooLarge means a response beyond the limit, or beyond the memory
	// that is left for responses.
	ReasonTooLarge Reason = "TooLarge"
	// ReasonBackoff means that the handler failed shortly before and is left alone.
	ReasonBackoff Reason = "Backoff"
)

// CallError tells that a handler could not be called. Its text is the same for
// the same cause, whatever address or moment, so that conditions do not flap;
// Unwrap gives the details.
type CallError struct {
	// Handler is the qualified name of the handler.
	Handler string
	// Hook is the version that was called.
	Hook hook.GroupVersionHook
	// Reason classifies the error.
	Reason Reason
	// StatusCode is the HTTP status with ReasonHTTPStatus.
	StatusCode int
	// RetryAfter is with ReasonBackoff when the handler is called again.
	RetryAfter time.Duration
	// Err is the cause.
	Err error

	message string
	// blameless tells that the handler did nothing wrong.
	blameless bool
}

// Error implements error.
func (e *CallError) Error() string {
	return fmt.Sprintf("cannot call handler %s of hook %s: %s", e.Handler, e.Hook.Hook, e.message)
}

// Unwrap returns the cause.
func (e *CallError) Unwrap() error { return e.Err }

// PanicError tells that the call of one of several handlers panicked on the caller's side, in a
// transport for example. Policy Ignore does not ignore it. Call and Invoke let the panic pass.
type PanicError struct {
	// Handler is the qualified name of the handler.
	Handler string
	// Value is what was panicked with.
	Value any
	// Stack is that of the goroutine.
	Stack []byte
}

// Error implements error.
func (e *PanicError) Error() string {
	return fmt.Sprintf("call of handler %s panicked: %v", e.Handler, e.Value)
}

// RejectedError tells that a handler answered with another status than Success.
type RejectedError struct {
	// Handler is the qualified name of the handler.
	Handler string
	// Hook is the version that was called.
	Hook hook.GroupVersionHook
	// Status is what the handler answered.
	Status hooksv1.ResponseStatus
	// Message is the handler's explanation.
	Message string
}

// Error implements error.
func (e *RejectedError) Error() string {
	if e.Status == hooksv1.ResponseStatusFailure {
		return fmt.Sprintf("handler %s of hook %s failed: %s", e.Handler, e.Hook.Hook, e.Message)
	}
	return fmt.Sprintf("handler %s of hook %s answered with the unknown status %q: %s", e.Handler, e.Hook.Hook, e.Status, e.Message)
}

// AggregateError holds the errors of several handlers, ordered by handler.
type AggregateError struct {
	// Hook is the hook that was called.
	Hook hook.GroupHook
	// Errors is not empty.
	Errors []error
	// Called is the number of handlers that were called.
	Called int
}

// Error implements error.
func (e *AggregateError) Error() string {
	texts := make([]string, len(e.Errors))
	for i, err := range e.Errors {
		texts[i] = err.Error()
	}
	return fmt.Sprintf("%d of %d handlers of hook %s failed: %s", len(e.Errors), e.Called, e.Hook.Hook, strings.Join(texts, "; "))
}

// Unwrap returns the errors.
func (e *AggregateError) Unwrap() []error { return e.Errors }
