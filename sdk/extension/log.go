package extension

import (
	"bytes"
	"log"
	"maps"
	"net"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
)

// routeLogger returns what the loggers of all calls of a handler have in common.
func (s *Server) routeLogger(name hook.GroupVersionHook, handler string) logr.Logger {
	return s.options.Logger.WithValues("hook", name.Hook, "hookVersion", hook.APIVersion(name), "handler", handler)
}

// callLogger adds what tells a call from others, its object as controllers name it.
func callLogger(logger logr.Logger, call *Call) logr.Logger {
	if call.Object.IsZero() {
		return logger.WithValues("requestID", call.RequestID)
	}
	return logger.WithValues("requestID", call.RequestID, call.Object.Kind, klog.KRef(call.Object.Namespace, call.Object.Name))
}

// logOutcome tells what a handler answered. Only what succeeds is left to who asks for
// more than the usual.
func logOutcome(logger logr.Logger, response hooksv1.ResponseObject, err error, took time.Duration) {
	after := retryAfter(response)
	switch {
	case response.GetStatus() == hooksv1.ResponseStatusFailure && err != nil:
		logger.Error(err, "The handler returned an error", "duration", took)
	case response.GetStatus() == hooksv1.ResponseStatusFailure:
		logger.Info("The handler answered with Failure", "message", response.GetMessage(), "duration", took)
	case after != 0:
		logger.Info("The handler asks to be called again", "retryAfterSeconds", after, "message", response.GetMessage(), "duration", took)
	default:
		if verbose := logger.V(1); verbose.Enabled() {
			verbose.Info("The handler answered", "duration", took)
		}
	}
}

func retryAfter(response hooksv1.ResponseObject) int32 {
	if blocking, ok := response.(hooksv1.RetryResponseObject); ok {
		return blocking.GetRetryAfterSeconds()
	}
	return 0
}

const (
	// logAgain is how long a refusal is told once only.
	logAgain = time.Minute
	// maxRefusals bounds the refusals that are told within logAgain: whoever can
	// connect can cause them.
	maxRefusals = 256
)

// refusals tells of connections and requests that the server refused, each once in
// logAgain.
type refusals struct {
	mu   sync.Mutex
	told map[string]time.Time
}

// due tells whether a refusal is to be told.
func (r *refusals) due(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if last, ok := r.told[key]; ok && now.Sub(last) < logAgain {
		return false
	}
	if r.told == nil {
		r.told = map[string]time.Time{}
	}
	if len(r.told) >= maxRefusals {
		maps.DeleteFunc(r.told, func(_ string, last time.Time) bool { return now.Sub(last) >= logAgain })
	}
	if len(r.told) >= maxRefusals {
		return false
	}
	r.told[key] = now
	return true
}

// hostOf is the address of a caller without the port, which is another one each time.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// connectionErrors is where net/http writes why there is no connection: a certificate
// that one of both sides does not trust is told nowhere else.
type connectionErrors struct{ server *Server }

var portOfCaller = regexp.MustCompile(`:[0-9]+: `)

// Write implements io.Writer.
func (c connectionErrors) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	if c.server.refusals.due(portOfCaller.ReplaceAllString(text, ": ")) {
		c.server.options.Logger.Info("A connection was refused, or the caller refused it", "err", text)
	}
	return len(line), nil
}

func (s *Server) errorLog() *log.Logger { return log.New(connectionErrors{s}, "", 0) }

// handlerNames returns the names of the handlers in order.
func (s *Server) handlerNames() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.handlers))
}
