package step

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/internal/lifecycle/rights"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

const (
	// webhookTimeout bounds a call, from the name's resolution to the end of the answer.
	webhookTimeout = 10 * time.Second
	// maxAnswer is how much of an answer is read.
	maxAnswer = 64 << 10
	// maxAnswerMessage is how much of the response's message is reported.
	maxAnswerMessage = 512
	// signingKey is the key of the Secret that signs.
	signingKey = "key"
)

// Bounds of how long an endpoint can delay the next request.
const (
	defaultWebhookPause = 15 * time.Second
	minWebhookPause     = time.Second
	maxWebhookPause     = time.Hour
)

// webhookKind is the kind that calls an HTTPS endpoint, signed as
// Standard Webhooks has it (https://www.standardwebhooks.com), and tells what the
// endpoint answers.
//
//	POST <url>
//	content-type: application/json
//	webhook-id: msg_...           the same for every attempt of a step
//	webhook-timestamp: <seconds>  of the attempt
//	webhook-signature: v1,<base64 of HMAC-SHA256 over "<id>.<timestamp>.<body>">
//
//	{"type": "slipway.lifecycle.BeforeClusterUpgrade",
//	 "timestamp": "2026-01-02T03:04:05Z",
//	 "data": {"hook": "BeforeClusterUpgrade",
//	          "run": {"name": "...", "step": "...", "attempt": 0},
//	          "cluster": {"namespace": "...", "name": "..."},
//	          "policy": "...",
//	          "request": {"fromKubernetesVersion": "...", "toKubernetesVersion": "..."}}}
//
// The answer may be a JSON object with the key message, a text for people.
//
// A call goes to the address of the endpoint or fails: no redirects, no proxies, and no
// addresses but public ones and those of networks that an administrator allows. Of the
// URL, whose path and query may be a secret, only the host is ever reported.
type webhookKind struct{}

var _ = register(webhookKind{})

// Name implements Kind.
func (webhookKind) Name() string { return "webhook" }

// Manual implements Kind.
func (webhookKind) Manual() (done, workload string) {
	return "an HTTPS endpoint answered with 2xx; calls are signed as [Standard Webhooks](https://www.standardwebhooks.com)", "no"
}

// Is implements Kind.
func (webhookKind) Is(s *lifecyclev1.Step) bool { return s.Webhook != nil }

// Facts implements Kind.
func (webhookKind) Facts(s *lifecyclev1.Step) Facts {
	facts := Facts{Doing: "calls an endpoint", Approval: "", Limit: defaultLimit, Waits: false, FollowsCluster: false, Workload: "", Lasting: nil}
	if address, err := parseEndpoint(s.Webhook.URL); err == nil {
		facts.Doing = "calls " + endpointHost(address)
	}
	return facts
}

// Needs implements Kind.
func (webhookKind) Needs(namespace string, s *lifecyclev1.Step, at *field.Path) Needs {
	return Needs{
		Reads:  []Reference{{at.Child("webhook", "secretName"), "Secret", s.Webhook.SecretName}},
		Engine: []rights.Right{{Namespace: namespace, Verb: "get", Resource: "secrets", Name: s.Webhook.SecretName}},
		Author: nil,
	}
}

// Validate implements Kind.
func (webhookKind) Validate(s *lifecyclev1.Step, at *field.Path) field.ErrorList {
	w := s.Webhook
	at = at.Child("webhook")
	errs := matches(w.SecretName, validation.IsDNS1123Subdomain, at.Child("secretName"))
	if _, err := parseEndpoint(w.URL); err != nil {
		// The URL may contain a password.
		errs = append(errs, field.Invalid(at.Child("url"), field.OmitValueType{}, err.Error()))
	}
	if w.CABundle != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(w.CABundle)) {
		errs = append(errs, field.Invalid(at.Child("caBundle"), field.OmitValueType{}, "holds no certificate in PEM form"))
	}
	return errs
}

// Execute implements Kind.
func (webhookKind) Execute(ctx context.Context, in Input) (Result, error) {
	address, err := parseEndpoint(in.Step.Webhook.URL)
	if err != nil {
		return Result{}, Terminal(fmt.Errorf("webhook.url: %w", err), "correct the policy, or skip the step")
	}
	if in.Run.Spec.Mode == lifecyclev1.ModeAudit {
		return Result{Done: true, Message: "would call " + endpointHost(address)}, nil
	}
	key, err := webhookKey(ctx, in)
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	request, err := webhookRequest(ctx, in, address, key)
	if err != nil {
		return Result{}, err
	}
	transport, err := webhookTransport(in.Step.Webhook.CABundle, in.Env.AllowedNetworks)
	if err != nil {
		return Result{}, Terminal(err, "correct the policy, or skip the step")
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return Result{}, fmt.Errorf("call %s: %w", endpointHost(address), err)
	}
	defer func() { _ = response.Body.Close() }()
	return webhookAnswer(response, in.Now, endpointHost(address))
}

func webhookKey(ctx context.Context, in Input) ([]byte, error) {
	name := client.ObjectKey{Namespace: in.Run.Namespace, Name: in.Step.Webhook.SecretName}
	secret := &corev1.Secret{}
	err := in.Env.Management.Get(ctx, name, secret)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("webhook.secretName: there is no Secret %s; create it, with the key %q", name, signingKey)
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	text, found := secret.Data[signingKey]
	if !found {
		return nil, fmt.Errorf("webhook.secretName: Secret %s has no key %q", name, signingKey)
	}
	key, err := parseSigningKey(text)
	if err != nil {
		return nil, fmt.Errorf("webhook.secretName: key %q of Secret %s %w", signingKey, name, err)
	}
	return key, nil
}

func webhookRequest(ctx context.Context, in Input, address *url.URL, key []byte) (*http.Request, error) {
	content, err := webhookBody(in)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	id := messageID(in)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", in.Env.UserAgent)
	request.Header.Set("Webhook-Id", id)
	request.Header.Set("Webhook-Timestamp", strconv.FormatInt(in.Now.Unix(), 10))
	request.Header.Set("Webhook-Signature", sign(key, id, in.Now, content))
	return request, nil
}

// webhookTransport makes one call: a step calls its endpoint seldom. A transport, other than
// a client, follows no redirects.
func webhookTransport(caBundle string, allowed []netip.Prefix) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caBundle != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(caBundle)) {
			return nil, errors.New("webhook.caBundle holds no certificate in PEM form")
		}
	}
	dialer := &net.Dialer{ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		resolved, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return checkDestination(resolved.Addr(), allowed)
	}}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        config,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}, nil
}

// webhookAnswer tells what the endpoint's answer means.
func webhookAnswer(response *http.Response, now time.Time, where string) (Result, error) {
	told := where + " answered " + response.Status
	if message := answerMessage(response); message != "" {
		told += ": " + message
	}
	switch code := response.StatusCode; {
	case code == http.StatusAccepted, code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		return Result{Message: told, After: webhookPause(response.Header.Get("Retry-After"), now)}, nil
	case code >= 200 && code < 300:
		return Result{Done: true, Message: told}, nil
	case code >= 300 && code < 400:
		return Result{}, fmt.Errorf("%s: redirects are not followed; set webhook.url to the final address", told)
	}
	return Result{}, errors.New(told)
}

// answerMessage returns the message of an answer in JSON, in one line.
func answerMessage(response *http.Response) string {
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return ""
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return ""
	}
	var answer struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(content, &answer) != nil {
		return ""
	}
	line := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, answer.Message)
	return strings.ToValidUTF8(line[:min(len(line), maxAnswerMessage)], "")
}

// webhookPause reads a Retry-After header: seconds or a date.
func webhookPause(header string, now time.Time) time.Duration {
	if header == "" {
		return defaultWebhookPause
	}
	if seconds, err := strconv.ParseInt(header, 10, 64); err == nil {
		// Clamped before it is multiplied, which could overflow.
		return time.Duration(min(max(seconds, int64(minWebhookPause/time.Second)), int64(maxWebhookPause/time.Second))) * time.Second
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return defaultWebhookPause
	}
	return min(max(at.Sub(now), minWebhookPause), maxWebhookPause)
}

// parseEndpoint returns the URL of an endpoint, or why it cannot be one. The error does not
// tell the URL.
func parseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("is no URL")
	case u.Scheme != "https":
		return nil, errors.New("must begin with https://")
	case u.Hostname() == "":
		return nil, errors.New("must have a host")
	case u.User != nil:
		return nil, errors.New("must not have a user: calls are signed")
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return nil, errors.New("must not have a fragment: it is never sent")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, errors.New("must have a port from 1 to 65535, or none")
		}
	}
	return u, nil
}

// endpointHost is the part of a URL that is not secret: its path and its query may be secrets, as those of
// chat services are.
func endpointHost(u *url.URL) string { return u.Scheme + "://" + u.Host }
