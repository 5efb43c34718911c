package client

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/internal/wire"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// Bounds of retryAfterSeconds. Less would spin, more would stop for no reason
// that an operator could see.
const (
	minRetryAfter = 1
	maxRetryAfter = 3600
)

const (
	// maxResponseBytes bounds the body of one response: as much as Cluster API's own server and
	// client accept.
	maxResponseBytes = 20 << 20
	// maxBodyMemory bounds the bodies of all responses that are being read and what they are
	// decoded to, apart from 32 KiB each for 256 of them. A body counts twice; one that finds no
	// room waits for 5 s.
	maxBodyMemory = 2 * maxResponseBytes
)

// newRequest returns a request of body. It is read from memory by a type that net/http knows, so
// that head and body are one record of TLS and one write, and the transport can try another
// connection as long as nothing of the request was sent.
func newRequest(ctx context.Context, u *url.URL, body []byte) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	// not parsed again for each call
	request.URL, request.Host = u, u.Host
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "slipway-runtime-client")
	request.Header.Set(hook.RequestIDHeader, rand.Text())
	return request, nil
}

// send sends a request. In HTTP/1.1 an answer belongs to a request only by its place
// on the connection: after a peer, or a proxy before it, has sent one too many, that
// one would be taken for the answer of the next call. An extension that repeats the
// ID of a request is safe from it.
func send(transport http.RoundTripper, request *http.Request) (*http.Response, error) {
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if id := answer.Header.Get(hook.RequestIDHeader); id != "" && id != request.Header.Get(hook.RequestIDHeader) {
		// Closing it unread ends the connection.
		_ = answer.Body.Close()
		return nil, &CallError{Reason: ReasonInvalidResponse, message: "what came is the answer to another request; the connection was closed"}
	}
	return answer, nil
}

// answer calls one handler and applies its failure policy.
func (c *Client) answer(ctx context.Context, e *encoder, r *registry.Registration) (untyped, error) {
	answer := untyped{Name: r.Name}
	response, err := c.call(ctx, e, r)
	if err == nil {
		answer.Response = response
		return answer, nil
	}
	callErr, ok := errors.AsType[*CallError](err)
	if r.FailurePolicy != runtimev1.FailurePolicyIgnore || !ok {
		return answer, err
	}
	c.metrics.ignored.WithLabelValues(r.Name, string(callErr.Reason)).Inc()
	if c.options.OnIgnored != nil {
		c.options.OnIgnored(ctx, err)
	}
	// A response of its own: nothing of a half-read answer may remain.
	answer.Response = e.definition.NewResponse()
	answer.Response.SetStatus(hooksv1.ResponseStatusSuccess)
	answer.Ignored = err
	return answer, nil
}

// call calls one handler. A response is returned only with a nil error, at the
// version of the caller and with status Success.
func (c *Client) call(ctx context.Context, e *encoder, r *registry.Registration) (hooksv1.ResponseObject, error) {
	if r.Hook.GroupHook() != e.definition.Name.GroupHook() {
		return nil, fmt.Errorf("handler %s implements hook %s, not %s", r.Name, r.Hook.Hook, e.definition.Name.Hook)
	}
	conversion, err := c.options.Catalog.Conversion(e.definition.Name, r.Hook)
	if err != nil {
		return nil, err
	}
	payload, err := e.encode(r, conversion)
	if err != nil {
		return nil, err
	}
	if conversion.Older().Meta.Deprecated() {
		c.metrics.deprecated.WithLabelValues(r.Name, r.Hook.Group, r.Hook.Version, r.Hook.Hook).Inc()
	}
	response, err := c.callWithBreaker(ctx, e.object, r, conversion.Older(), payload)
	if err != nil {
		return nil, err
	}
	if response, err = conversion.UpResponse(response); err != nil {
		return nil, err
	}
	if status := response.GetStatus(); status != hooksv1.ResponseStatusSuccess {
		return nil, &RejectedError{Handler: r.Name, Hook: r.Hook, Status: status, Message: response.GetMessage()}
	}
	c.clamp(e.definition, r, response)
	return response, nil
}

// clamp brings retryAfterSeconds into its bounds, and removes it for a hook that does not hold
// back its caller.
func (c *Client) clamp(d *hook.Definition, r *registry.Registration, response hooksv1.ResponseObject) {
	blocking, ok := response.(hooksv1.RetryResponseObject)
	if !ok || blocking.GetRetryAfterSeconds() == 0 {
		return
	}
	asked := blocking.GetRetryAfterSeconds()
	clamped := min(max(asked, minRetryAfter), maxRetryAfter)
	if d.Meta.NonBlocking {
		clamped = 0
	}
	if clamped != asked {
		c.metrics.clamped.WithLabelValues(r.Name).Inc()
		blocking.SetRetryAfterSeconds(clamped)
	}
}

// callWithBreaker sends the request unless the handler is left alone, and reports the
// outcome to its breaker.
func (c *Client) callWithBreaker(ctx context.Context, object objectKey, r *registry.Registration, d *hook.Definition, payload []byte) (hooksv1.ResponseObject, error) {
	if ctx.Err() != nil {
		return nil, ended(ctx, r, "its turn did not come before the deadline for all handlers")
	}
	allowed, wait, last := c.breakers.allow(r, object)
	if !allowed {
		return nil, &CallError{Handler: r.Name, Hook: r.Hook, Reason: ReasonBackoff, RetryAfter: wait, Err: last,
			message: "it failed before and is left alone for a while: " + cause(last)}
	}
	// A call that panics, in a transport for example, is neither a success nor a failure. It must
	// not count as under way for ever.
	panicked := true
	defer func() {
		if panicked {
			c.breakers.done(r, object, nil, true)
		}
	}()
	response, err := c.callOnce(ctx, r, d, payload)
	panicked = false
	if callErr, ok := errors.AsType[*CallError](err); ok {
		c.breakers.done(r, object, callErr, callErr.blameless || callErr.aboutRequest())
	} else {
		c.breakers.done(r, object, nil, err != nil)
	}
	return response, err
}

// ended returns the error of a context that ended before the handler had its time.
// The end of Options.Deadline is a failure to call the handler, for which it is not
// to blame; any other end is the caller's wish.
func ended(ctx context.Context, r *registry.Registration, message string) error {
	if errors.Is(context.Cause(ctx), errDeadline) {
		return &CallError{Handler: r.Name, Hook: r.Hook, Reason: ReasonTimeout, Err: errDeadline, message: message, blameless: true}
	}
	return fmt.Errorf("call of handler %s: %w", r.Name, ctx.Err())
}

// callOnce sends the request and gives each failure its type. The end of the
// caller's context is the caller's, whatever the transport makes of it.
func (c *Client) callOnce(ctx context.Context, r *registry.Registration, d *hook.Definition, payload []byte) (hooksv1.ResponseObject, error) {
	own := time.Now().Add(r.Timeout)
	callCtx, cancel := context.WithDeadline(ctx, own)
	defer cancel()
	response, err := c.exchange(callCtx, r, d, payload)
	if err == nil {
		return response, nil
	}
	if ctx.Err() != nil && !hadItsTime(ctx, own, r.Timeout) {
		return nil, ended(ctx, r, "it had not answered when the deadline for all handlers ended")
	}
	if callCtx.Err() != nil {
		err = &CallError{Reason: ReasonTimeout, Err: err, message: fmt.Sprintf("no answer within %s", r.Timeout)}
	}
	callErr, ok := errors.AsType[*CallError](err)
	if !ok {
		callErr = &CallError{Reason: ReasonUnreachable, Err: err, message: describe(err)}
	}
	callErr.Handler, callErr.Hook = r.Name, r.Hook
	return nil, callErr
}

// hadItsTime tells whether a handler whose call ended with Options.Deadline had at
// least nine tenths of its own timeout.
func hadItsTime(ctx context.Context, own time.Time, timeout time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && errors.Is(context.Cause(ctx), errDeadline) && own.Sub(deadline) <= timeout/10
}

// aboutRequest tells whether the error says something about the request only: the
// next one may well succeed.
func (e *CallError) aboutRequest() bool {
	return errors.Is(e.Err, wire.ErrBusy) ||
		e.StatusCode == http.StatusBadRequest || e.StatusCode == http.StatusRequestEntityTooLarge
}

// exchange sends one request and decodes its response.
func (c *Client) exchange(ctx context.Context, r *registry.Registration, d *hook.Definition, payload []byte) (response hooksv1.ResponseObject, err error) {
	transport, err := c.transports.get(r)
	if err != nil {
		return nil, err
	}
	ctx, span := c.startSpan(ctx, r, d.Name)
	start, status := time.Now(), 0
	defer func() {
		took := time.Since(start)
		c.metrics.observe(r.URL.Host, status, response, d.Name, took)
		c.metrics.observeCall(r.Name, d.Name, outcome(response, err), took, trace.SpanContextFromContext(ctx))
		endSpan(span, status, err)
	}()
	request, err := newRequest(ctx, r.URL, payload)
	if err != nil {
		return nil, err
	}
	inject(ctx, span, request.Header)
	answer, err := send(transport, request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	status = answer.StatusCode
	return c.read(ctx, answer, r, d)
}

// maxErrorText bounds what is quoted of the body of a response that is not 200.
const maxErrorText = 512

func (c *Client) read(ctx context.Context, answer *http.Response, r *registry.Registration, d *hook.Definition) (hooksv1.ResponseObject, error) {
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, maxErrorText))
		wire.Drain(answer.Body)
		return nil, &CallError{Reason: ReasonHTTPStatus, StatusCode: answer.StatusCode,
			message: fmt.Sprintf("HTTP status %d: %q", answer.StatusCode, text)}
	}
	encoding := strings.ToLower(answer.Header.Get("Content-Encoding"))
	if encoding == "identity" {
		encoding = ""
	}
	unasked := fmt.Errorf("the response is encoded as %q, which was not asked for", encoding)
	wrong := &CallError{Reason: ReasonInvalidResponse, message: unasked.Error()}
	source, partial := wire.Source{Reader: answer.Body, Length: answer.ContentLength, Limit: maxResponseBytes}, wire.Loose{}
	if r.FailurePolicy == runtimev1.FailurePolicyIgnore {
		source.Partial = func(data []byte, all bool) { partial = loosely(data, encoding, all) }
	} else if encoding != "" {
		return nil, wrong
	}
	body, err := c.budget.Read(ctx, source)
	if err != nil {
		if stricter := holdsBack(d, partial, nil, err); stricter != nil {
			return stricter, nil
		}
		var tooLarge *wire.TooLargeError
		if errors.As(err, &tooLarge) || errors.Is(err, wire.ErrBusy) {
			return nil, &CallError{Reason: ReasonTooLarge, Err: err, message: err.Error()}
		}
		return nil, err
	}
	if encoding != "" {
		defer body.Release()
		if stricter := holdsBack(d, loosely(body.Bytes(), encoding, true), nil, unasked); stricter != nil {
			return stricter, nil
		}
		return nil, wrong
	}
	defer body.Release()
	response := d.NewResponse()
	err = body.Decode(ctx, response, d.ResponseKind)
	if err == nil || r.FailurePolicy == runtimev1.FailurePolicyIgnore {
		if stricter := holdsBack(d, body.Loose(), response, err); stricter != nil {
			return stricter, nil
		}
	}
	var footprint *wire.FootprintError
	switch {
	case err == nil:
		return response, nil
	case errors.As(err, &footprint), errors.Is(err, wire.ErrBusy):
		return nil, &CallError{Reason: ReasonTooLarge, Err: err, message: err.Error()}
	default:
		return nil, &CallError{Reason: ReasonInvalidResponse, Err: err, message: err.Error()}
	}
}

// maxLoose bounds what of a compressed answer is looked at.
const maxLoose = 64 << 10

// loosely reads what arrived of an answer. When it went on, and no status had come, the rest could be a refusal,
// and counts as one.
func loosely(data []byte, encoding string, all bool) wire.Loose {
	if encoding == "gzip" {
		if z, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
			data, _ = io.ReadAll(io.LimitReader(z, maxLoose)) // what comes before an error counts
			all = all && len(data) < maxLoose
		}
	}
	loose := wire.ReadLoosely(data)
	if !all && !loose.HasStatus {
		loose.Refuses = true
	}
	return loose
}

// holdsBack returns the response to a body that only readers less strict than Decode take for a
// refusal or for a request to wait; else nil. Policy Ignore would let pass what another caller,
// Cluster API's own for one, holds back. strict is what Decode has read, unless it failed.
func holdsBack(d *hook.Definition, loose wire.Loose, strict hooksv1.ResponseObject, decodeErr error) hooksv1.ResponseObject {
	if decodeErr != nil {
		strict = d.NewResponse()
		strict.SetStatus(hooksv1.ResponseStatusSuccess)
	}
	blocking, ok := strict.(hooksv1.RetryResponseObject)
	switch {
	case strict.GetStatus() != hooksv1.ResponseStatusSuccess:
		return nil
	case loose.Refuses:
		strict.SetStatus(hooksv1.ResponseStatus(loose.Status))
	case ok && !d.Meta.NonBlocking && loose.RetryAfterSeconds != 0 && blocking.GetRetryAfterSeconds() == 0:
		blocking.SetRetryAfterSeconds(loose.RetryAfterSeconds)
	default:
		return nil
	}
	message := "the answer can be read in more than one way"
	if decodeErr != nil {
		message = fmt.Sprintf("the answer is not valid: %v", decodeErr)
	}
	if loose.Message != "" {
		message = loose.Message + "; " + message
	}
	strict.SetMessage(message)
	return strict
}

// encoder encodes one request for many handlers: once for all that implement the
// same version and have the same settings.
type encoder struct {
	client     *Client
	definition *hook.Definition
	request    runtime.Object
	object     objectKey

	mu      sync.Mutex
	encoded []encodedRequest
}

type encodedRequest struct {
	version  hook.GroupVersionHook
	settings map[string]string
	payload  []byte
}

func (c *Client) newEncoder(definition *hook.Definition, object registry.Object, request runtime.Object) (*encoder, error) {
	if !definition.IsRequest(request) {
		return nil, fmt.Errorf("client: %T is not the request of hook %s", request, definition.Name)
	}
	return &encoder{client: c, definition: definition, request: request, object: keyOf(object)}, nil
}

// withSettings returns a copy of the request at the caller's version with the
// settings of r added. Settings of the request win.
func (e *encoder) withSettings(r *registry.Registration) runtime.Object {
	request, _ := e.definition.CopyRequest(e.request)
	if carrier, ok := request.(hooksv1.RequestObject); ok && len(r.Settings) > 0 {
		merged := maps.Clone(r.Settings)
		maps.Copy(merged, carrier.GetSettings())
		carrier.SetSettings(merged)
	}
	return request
}

// encode returns the request for r at the version of conversion.
func (e *encoder) encode(r *registry.Registration, conversion *hook.Conversion) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, known := range e.encoded {
		if known.version == r.Hook && maps.Equal(known.settings, r.Settings) {
			return known.payload, nil
		}
	}
	object, err := conversion.DownRequest(e.withSettings(r))
	if err != nil {
		return nil, err
	}
	conversion.Older().MarkRequest(object)
	payload, err := wire.Encode(object)
	if err != nil {
		return nil, err
	}
	e.encoded = append(e.encoded, encodedRequest{version: r.Hook, settings: r.Settings, payload: payload})
	return payload, nil
}

// Exchange posts body to a handler as it is, valid or not, and returns the HTTP
// status and the body of the answer, bounded like that of any call. It is for
// checks of extensions: breaker, policy, conversion and metrics play no part.
func (c *Client) Exchange(ctx context.Context, r *registry.Registration, body []byte) (int, []byte, error) {
	transport, err := c.transports.get(r)
	if err != nil {
		return 0, nil, err
	}
	request, err := newRequest(ctx, r.URL, body)
	if err != nil {
		return 0, nil, err
	}
	answer, err := send(transport, request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(http.MaxBytesReader(nil, answer.Body, maxResponseBytes))
	return answer.StatusCode, data, err
}
