package extension

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/internal/wire"
)

// httpError refuses a request with an HTTP status.
type httpError struct {
	code int
	err  error
}

// Error implements error.
func (e *httpError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *httpError) Unwrap() error { return e.err }

func refuse(code int, format string, args ...any) error {
	return &httpError{code: code, err: fmt.Errorf(format, args...)}
}

// jsonType is shared by all responses; net/http does not change it.
var jsonType = []string{"application/json"}

// maxRequestID is the longest ID of a request that is taken from a caller, in bytes.
const maxRequestID = 128

// requestID returns the ID that the caller gave the request, empty if there is none
// that is fit for a log.
func requestID(r *http.Request) string {
	id := r.Header.Get(hook.RequestIDHeader)
	if len(id) > maxRequestID || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return ""
	}
	return id
}

// serveHook answers one call of a hook.
func (s *Server) serveHook(w http.ResponseWriter, r *http.Request, route *route) {
	start := time.Now()
	r, span := s.startSpan(r, route)
	id := requestID(r)
	if id != "" {
		w.Header()[hook.RequestIDHeader] = []string{id}
	} else {
		id = rand.Text()
	}
	code := http.StatusOK
	response, err := s.answer(w, r, route, id)
	// Also when the response cannot be written, which ends in a panic.
	defer func() { endSpan(span, code, response) }()
	if err != nil {
		code = http.StatusInternalServerError
		var refused *httpError
		if errors.As(err, &refused) {
			code = refused.code
		}
		if s.refusals.due(fmt.Sprint(hostOf(r.RemoteAddr), r.URL.Path, code)) {
			route.logger.Info("A request failed", "requestID", id, "code", code, "remoteAddress", r.RemoteAddr, "err", err.Error())
		}
		response = route.conversion.Newer().NewResponse()
		response.SetStatus(hooksv1.ResponseStatusFailure)
		response.SetMessage(err.Error())
	}
	body, err := encode(route, response)
	if err != nil {
		route.logger.Error(err, "A response cannot be encoded", "requestID", id)
		response, code = undecided(route, response, code)
		if body, err = encode(route, response); err != nil {
			// Status and message alone: only a type that refuses to be written does this.
			panic(http.ErrAbortHandler)
		}
	}
	header := w.Header()
	header["Content-Type"] = jsonType
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	if route.warning != "" {
		header.Set("Warning", route.warning)
	}
	switch code {
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", "1")
	case http.StatusRequestEntityTooLarge, http.StatusRequestTimeout:
		header.Set("Connection", "close")
	}
	w.WriteHeader(code)
	_, _ = w.Write(body)

	route.count(code, response.GetStatus()).Inc()
	route.handler.tally.count(code, response)
	route.duration.Observe(time.Since(start).Seconds())
}

// encode returns what a response is sent as. Its message may hold any bytes, such as those of an
// error of the operating system, and arrives all the same.
func encode(route *route, response hooksv1.ResponseObject) ([]byte, error) {
	route.conversion.Newer().MarkResponse(response)
	if message := response.GetMessage(); !utf8.ValidString(message) {
		response.SetMessage(strings.ToValidUTF8(message, "\uFFFD"))
	}
	return wire.Encode(response)
}

// undecided returns what is sent instead of a response that cannot be encoded. What
// was refused stays refused; what succeeded is a defect of the handler.
func undecided(route *route, response hooksv1.ResponseObject, code int) (hooksv1.ResponseObject, int) {
	status, message := response.GetStatus(), response.GetMessage()
	if status != hooksv1.ResponseStatusFailure {
		code, message = http.StatusInternalServerError, "the response cannot be encoded; see the log of the extension"
	}
	response = route.conversion.Newer().NewResponse()
	response.SetStatus(hooksv1.ResponseStatusFailure)
	response.SetMessage(message)
	return response, code
}

// answer reads the request and runs the handler.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, route *route, id string) (hooksv1.ResponseObject, error) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, refuse(http.StatusUnsupportedMediaType, "content encoding %q is not supported; send the request as it is", encoding)
	}
	if r.ContentLength > s.options.MaxRequestBytes {
		return nil, refuse(http.StatusRequestEntityTooLarge, "the request has %d bytes, more than %d", r.ContentLength, s.options.MaxRequestBytes)
	}
	timeout, err := callTimeout(r, route.handler.timeout)
	if err != nil {
		return nil, err
	}
	request, body, err := s.read(w, r, route)
	if err != nil {
		return nil, err
	}
	converted, err := route.conversion.DownRequest(request)
	if err != nil {
		body.Release()
		return nil, refuse(http.StatusBadRequest, "%w", err)
	}
	definition := route.handler.definition
	call := &Call{
		Hook: definition.Name, Handler: route.handler.name, RequestID: id,
		Object: definition.ObjectOf(converted), Request: converted, Header: r.Header, TLS: r.TLS,
	}
	response, err := s.run(logr.NewContext(r.Context(), callLogger(route.logger, call)), route.handler, timeout, call, body)
	if err != nil {
		return nil, err
	}
	return route.conversion.UpResponse(response)
}

// callTimeout returns the shorter of the handler's timeout and the one the caller
// announces.
func callTimeout(r *http.Request, timeout time.Duration) (time.Duration, error) {
	value := r.URL.Query().Get("timeout")
	if value == "" {
		return timeout, nil
	}
	asked, err := time.ParseDuration(value)
	if err != nil || asked <= 0 {
		return 0, refuse(http.StatusBadRequest, "invalid timeout %q: want a positive duration such as 10s", value)
	}
	return min(asked, timeout), nil
}

// read returns the request and its body, whose memory stays reserved until Release.
func (s *Server) read(w http.ResponseWriter, r *http.Request, route *route) (runtime.Object, *wire.Body, error) {
	connection, start := http.NewResponseController(w), time.Now()
	body, err := s.budget.Read(r.Context(), wire.Source{
		Reader: r.Body, Length: r.ContentLength, Limit: s.options.MaxRequestBytes,
		Progress: func() {
			now := time.Now()
			// An error means that there is no connection, as in tests.
			_ = connection.SetReadDeadline(now.Add(min(s.options.ReadTimeout, MaxTimeout-now.Sub(start))))
		},
	})
	if err != nil {
		return nil, nil, s.refuseBody(w, err)
	}
	// The deadline would cancel the context of a handler that runs longer.
	_ = connection.SetReadDeadline(time.Time{})
	definition := route.conversion.Newer()
	request := definition.NewRequest()
	if err := body.Decode(r.Context(), request, definition.RequestKind); err != nil {
		body.Release()
		return nil, nil, s.refuseBody(w, err)
	}
	body.Recycle()
	return request, body, nil
}

// refuseBody gives an error of reading or decoding a body its HTTP status.
func (s *Server) refuseBody(w http.ResponseWriter, err error) error {
	var tooLarge *wire.TooLargeError
	var footprint *wire.FootprintError
	switch {
	case errors.As(err, &tooLarge), errors.As(err, &footprint):
		return refuse(http.StatusRequestEntityTooLarge, "%w", err)
	case errors.Is(err, wire.ErrBusy):
		w.Header().Set("Connection", "close")
		return refuse(http.StatusServiceUnavailable, "%w", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(http.StatusRequestTimeout, "the request did not arrive in time: each %d KiB have %s", wire.Piece>>10, s.options.ReadTimeout)
	}
	return refuse(http.StatusBadRequest, "%w", err)
}

type outcome struct {
	response hooksv1.ResponseObject
	err      error
}

// run calls the handler on a goroutine of its own, so that the caller gets an
// answer at the deadline even from a handler that ignores its context. Such a
// handler keeps its slot and its memory until it returns.
func (s *Server) run(ctx context.Context, h *handler, timeout time.Duration, call *Call, body *wire.Body) (hooksv1.ResponseObject, error) {
	select {
	case s.slots <- struct{}{}:
	default:
		body.Release()
		return nil, refuse(http.StatusServiceUnavailable, "%d handlers are running, which is the limit", cap(s.slots))
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s.metrics.running.Inc()
	done := make(chan outcome, 1)
	go func() {
		defer func() {
			body.Release()
			<-s.slots
			s.metrics.running.Dec()
		}()
		done <- s.protect(ctx, h, call)
	}()
	select {
	case o := <-done:
		return o.response, o.err
	case <-ctx.Done():
	}
	// Both may be ready; an answer in time counts.
	select {
	case o := <-done:
		return o.response, o.err
	default:
	}
	s.metrics.abandoned.Inc()
	go func() {
		<-done
		s.metrics.abandoned.Dec()
	}()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, refuse(http.StatusGatewayTimeout, "handler %q did not answer within %s", h.name, timeout)
	}
	return nil, refuse(http.StatusServiceUnavailable, "the call of handler %q was cancelled", h.name)
}

// protect runs the handler and turns a panic into an answer. The text of the
// panic stays in the log: it may hold secrets of the extension.
func (s *Server) protect(ctx context.Context, h *handler, call *Call) (o outcome) {
	logger, start := logr.FromContextOrDiscard(ctx), time.Now()
	defer func() {
		if p := recover(); p != nil {
			s.metrics.panics.WithLabelValues(h.name).Inc()
			logger.Error(fmt.Errorf("panic: %v", p), "A handler panicked", "stack", string(debug.Stack()))
			o = outcome{err: refuse(http.StatusInternalServerError, "handler %q panicked; see the log of the extension", h.name)}
		}
	}()
	answered, err := h.call(ctx, call)
	response, err := checked(h.definition, answered, err)
	finish(h.definition, response, err)
	logOutcome(logger, response, err, time.Since(start))
	return outcome{response: response}
}
