package hosthooks

import (
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/text"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/registry"
)

const (
	// retryFailed is the pause after a hook failed. The client leaves a handler
	// alone for longer and longer by itself.
	retryFailed = 5 * time.Second
	// retryNotReady is the pause while the handlers are not known yet, which is
	// the first moment of a manager.
	retryNotReady = 250 * time.Millisecond
	// maxMessage bounds what extensions can put into a condition, in bytes.
	maxMessage = 2048
)

// Outcome is what came of calling a hook.
type Outcome struct {
	// Handlers is the number of handlers that were called.
	Handlers int
	// RetryAfter is when to call again; zero if the hook passed.
	RetryAfter time.Duration
	// Reason is that of the condition that tells the outcome.
	Reason string
	// Message names who holds the operation back and why. It is the same for the
	// same cause.
	Message string
}

// Passed tells whether the operation may go on.
func (o Outcome) Passed() bool { return o.RetryAfter == 0 }

// Condition returns the outcome as a condition, nil if no handler was called and
// none is missing. Its last transition tells since when a hook blocks.
func (o Outcome) Condition(conditionType string) *metav1.Condition {
	if o.Passed() && o.Handlers == 0 {
		return nil
	}
	status := metav1.ConditionFalse
	if o.Passed() {
		status = metav1.ConditionTrue
	}
	return &metav1.Condition{Type: conditionType, Status: status, Reason: o.Reason, Message: o.Message}
}

// outcome tells what came of a call of all handlers. reason is what a response says
// besides its message.
func outcome[R hooksv1.RetryResponseObject](result *sdkclient.Outcome[R], err error, reason func(R) string) Outcome {
	if err != nil {
		return failed(err)
	}
	if !result.Blocked() {
		return passed(len(result.Answers))
	}
	var by []blocker
	for _, answer := range result.Answers {
		if retry := answer.Response; retry.GetRetryAfterSeconds() > 0 {
			by = append(by, blocker{answer.Name, reason(retry), retry.GetMessage()})
		}
	}
	return blocked(len(result.Answers), result.RetryAfter, by)
}

func passed(handlers int) Outcome {
	return Outcome{Handlers: handlers, Reason: infrav1.HooksPassedReason}
}

func failed(err error) Outcome {
	pause := retryFailed
	var callErr *sdkclient.CallError
	switch {
	case errors.Is(err, registry.ErrNotReady):
		pause = retryNotReady
	case errors.As(err, &callErr) && callErr.RetryAfter > 0:
		pause = callErr.RetryAfter
	}
	return Outcome{RetryAfter: pause, Reason: infrav1.HooksFailedReason, Message: text.Start(err.Error(), maxMessage)}
}

// blocker is one handler that requests more time.
type blocker struct{ handler, reason, message string }

func blocked(handlers int, after time.Duration, by []blocker) Outcome {
	texts := make([]string, len(by))
	for i, b := range by {
		texts[i] = "handler " + b.handler
		for _, detail := range []string{b.reason, b.message} {
			if detail != "" {
				texts[i] += ": " + detail
			}
		}
	}
	return Outcome{
		Handlers: handlers, RetryAfter: after, Reason: infrav1.HooksBlockedReason,
		Message: text.Start(fmt.Sprintf("Held back by %s", strings.Join(texts, "; ")), maxMessage),
	}
}
