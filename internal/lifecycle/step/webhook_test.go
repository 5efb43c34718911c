package step_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// loopback is where the endpoints of the tests are.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

var rawKey = []byte("0123456789abcdef0123456789abcdef")

// webhookCall is a request as the endpoint saw it.
type webhookCall struct {
	header http.Header
	body   []byte
	query  string
}

type webhookFixture struct {
	env      *step.Env
	in       step.Input
	endpoint *httptest.Server
	calls    []webhookCall
}

func newWebhookFixture(t *testing.T, answer http.HandlerFunc) *webhookFixture {
	t.Helper()
	testenv.Skip(t)
	f := &webhookFixture{env: newEnv(management.Client)}
	f.env.AllowedNetworks = loopback
	f.endpoint = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		f.calls = append(f.calls, webhookCall{r.Header, body, r.URL.RawQuery})
		answer(w, r)
	}))
	t.Cleanup(f.endpoint.Close)
	namespace := management.Namespace(t)
	cluster := testenv.NewCluster(t, management.Client, namespace)
	f.in = testenv.NewStep(t, management.Client, cluster, lifecyclev1.AfterControlPlaneUpgrade, lifecyclev1.Step{Name: "call", Webhook: &lifecyclev1.WebhookStep{
		URL: f.endpoint.URL + "/hooks?token=hunter2", SecretName: "signing", CABundle: caOf(f.endpoint),
	}})
	f.secret(t, map[string][]byte{"key": []byte("whsec_" + base64.StdEncoding.EncodeToString(rawKey) + "\n")})
	return f
}

func caOf(s *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// secret replaces the Secret that signs.
func (f *webhookFixture) secret(t *testing.T, data map[string][]byte) {
	t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.in.Run.Namespace, Name: "signing"}, Data: data}
	if err := management.Client.Create(t.Context(), s); err != nil {
		if err := management.Client.Update(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

func (f *webhookFixture) fails(t *testing.T, parts ...string) error {
	t.Helper()
	result, err := execute(t, f.env, f.in)
	if err == nil {
		t.Fatalf("got %+v, want an error", result)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error tells the query: %v", err)
	}
	return err
}

func answers(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestCallsAreSignedAndTellTheHook(t *testing.T) {
	f := newWebhookFixture(t, answers(http.StatusNoContent))
	result, err := execute(t, f.env, f.in)
	if err != nil || !result.Done || result.Message != f.endpoint.URL+" answered 204 No Content" {
		t.Fatalf("got %+v, %v", result, err)
	}
	got := f.calls[0]
	mac := hmac.New(sha256.New, rawKey)
	mac.Write([]byte(got.header.Get("webhook-id") + "." + got.header.Get("webhook-timestamp") + "." + string(got.body)))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); got.header.Get("webhook-signature") != want {
		t.Errorf("signature %q, want %q", got.header.Get("webhook-signature"), want)
	}
	if got.query != "token=hunter2" || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("query %q, header %v", got.query, got.header)
	}
	var body, want any
	if err := json.Unmarshal(got.body, &body); err != nil {
		t.Fatal(err)
	}
	wanted := `{"type":"slipway.lifecycle.AfterControlPlaneUpgrade","timestamp":"` + f.in.Progress.StartTime.UTC().Format(time.RFC3339) + `",
		"data":{"hook":"AfterControlPlaneUpgrade","run":{"name":"c1-call","step":"call","attempt":0},"policy":"policy",
		"cluster":{"namespace":"` + f.in.Run.Namespace + `","name":"c1"},"request":{"kubernetesVersion":"` + testenv.Version + `"}}}`
	if err := json.Unmarshal([]byte(wanted), &want); err != nil {
		t.Fatal(err)
	}
	if a, b := textOf(t, body), textOf(t, want); a != b {
		t.Errorf("body %s\nwant %s", a, b)
	}
}

func textOf(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestRepeatedCallsHaveTheSameIDUntilARetry(t *testing.T) {
	f := newWebhookFixture(t, answers(http.StatusOK))
	attempt := func() {
		if _, err := execute(t, f.env, f.in); err != nil {
			t.Fatal(err)
		}
	}
	attempt()
	f.in.Now = f.in.Now.Add(time.Minute)
	f.in.Progress.Failures++
	attempt()
	f.in.Progress.Attempt++
	attempt()
	id := func(i int) string { return f.calls[i].header.Get("webhook-id") }
	if id(0) == "" || id(0) != id(1) || string(f.calls[0].body) != string(f.calls[1].body) {
		t.Errorf("the second call is another message: %q, %q", id(0), id(1))
	}
	if f.calls[0].header.Get("webhook-timestamp") == f.calls[1].header.Get("webhook-timestamp") {
		t.Error("the second call has the time of the first")
	}
	if id(2) == id(0) {
		t.Error("after a retry the message is the same")
	}
}

func TestAnEndpointCanHaveTheStepWait(t *testing.T) {
	for name, c := range map[string]struct {
		code       int
		retryAfter string
		want       time.Duration
	}{
		"202":              {http.StatusAccepted, "30", 30 * time.Second},
		"429":              {http.StatusTooManyRequests, "30", 30 * time.Second},
		"503":              {http.StatusServiceUnavailable, "30", 30 * time.Second},
		"none":             {http.StatusAccepted, "", 15 * time.Second},
		"nonsense":         {http.StatusAccepted, "soon", 15 * time.Second},
		"too short":        {http.StatusAccepted, "-5", time.Second},
		"too long":         {http.StatusAccepted, "9223372036854775807", time.Hour},
		"date":             {http.StatusAccepted, "date", 2 * time.Minute},
		"date in the past": {http.StatusAccepted, "Mon, 02 Jan 2006 15:04:05 GMT", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			var f *webhookFixture
			f = newWebhookFixture(t, func(w http.ResponseWriter, _ *http.Request) {
				header := c.retryAfter
				if header == "date" {
					header = f.in.Now.Add(2 * time.Minute).UTC().Format(http.TimeFormat)
				}
				w.Header().Set("Retry-After", header)
				w.WriteHeader(c.code)
			})
			result, err := execute(t, f.env, f.in)
			if err != nil || result.Done || result.After != c.want {
				t.Errorf("got %+v, %v; want to wait %s", result, err, c.want)
			}
		})
	}
}

func TestTheMessageOfTheEndpointIsTold(t *testing.T) {
	f := newWebhookFixture(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"message":"change 12\nis not `+strings.Repeat("approved ", 100)+`"}`)
	})
	result, err := execute(t, f.env, f.in)
	if err != nil || !strings.Contains(result.Message, "202 Accepted: change 12 is not approved") || len(result.Message) > 700 {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestOtherAnswersFailTheAttempt(t *testing.T) {
	for code, want := range map[int]string{400: "answered 400", 401: "answered 401", 500: "answered 500", 302: "redirects are not followed"} {
		f := newWebhookFixture(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://127.0.0.1:1/hunter2")
			w.WriteHeader(code)
		})
		if err := f.fails(t, want); step.IsTerminal(err) {
			t.Errorf("%d is not tried again", code)
		}
		if len(f.calls) != 1 {
			t.Errorf("%d: %d calls", code, len(f.calls))
		}
	}
}

func TestAnEndlessAnswerIsCutOff(t *testing.T) {
	f := newWebhookFixture(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		chunk := []byte(strings.Repeat(" ", 32<<10))
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	if result, err := execute(t, f.env, f.in); err != nil || !result.Done {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestACertificateThatIsNotTrustedFailsTheAttempt(t *testing.T) {
	f := newWebhookFixture(t, answers(http.StatusOK))
	f.in.Step.Webhook.CABundle = ""
	_ = f.fails(t, "certificate")
	if len(f.calls) != 0 {
		t.Error("the endpoint was called")
	}
	f.in.Step.Webhook.CABundle = "no certificate"
	_ = f.fails(t, "webhook.caBundle")
}

func TestLinkLocalAddressesAreNotCalled(t *testing.T) {
	f := newWebhookFixture(t, answers(http.StatusOK))
	for _, u := range []string{"https://169.254.169.254/latest", "https://[fe80::1%25lo]/", "https://[::ffff:169.254.169.254]/", "https://0.0.0.0/"} {
		f.in.Step.Webhook.URL = u
		_ = f.fails(t, "an endpoint must not have the address")
	}
}

// TestDestinationsAreCheckedAfterResolution: a name leads no further than an address.
func TestDestinationsAreCheckedAfterResolution(t *testing.T) {
	f := newWebhookFixture(t, answers(http.StatusOK))
	f.env.AllowedNetworks = nil
	for _, host := range []string{"localhost", "127.0.0.1"} {
		f.in.Step.Webhook.URL = strings.Replace(f.endpoint.URL, "127.0.0.1", host, 1)
		_ = f.fails(t, "--webhook-allowed-networks")
	}
	if len(f.calls) != 0 {
		t.Errorf("called %d times", len(f.calls))
	}
}

func TestProxiesOfTheEnvironmentAreNotUsed(t *testing.T) {
	f := newWebhookFixture(t, answers(http.StatusOK))
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	if result, err := execute(t, f.env, f.in); err != nil || !result.Done {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestABadKeyIsNamedAndNotTold(t *testing.T) {
	f := newWebhookFixture(t, answers(http.StatusOK))
	for name, data := range map[string]map[string][]byte{
		`has no key "key"`:       {"other": rawKey},
		"24 to 64 random bytes":  {"key": []byte("whsec_aHVudGVyMg==")},
		`must be "whsec_" and 2`: {"key": []byte("hunter2!")},
	} {
		f.secret(t, data)
		if err := f.fails(t, "signing", name); strings.Contains(err.Error(), "aHVudGVyMg") {
			t.Errorf("the error tells the key: %v", err)
		}
	}
	f.in.Step.Webhook.SecretName = "absent"
	_ = f.fails(t, "webhook.secretName: there is no Secret", "absent")
	if len(f.calls) != 0 {
		t.Error("the endpoint was called")
	}
}

func TestBadURLsAreRefused(t *testing.T) {
	f := newWebhookFixture(t, answers(http.StatusOK))
	for u, want := range map[string]string{
		"http://example.com":            "must begin with https://",
		"https://u:hunter2@example.com": "must not have a user",
		"https://example.com/#x":        "must not have a fragment",
		"https:///path":                 "must have a host",
		"https://example.com:99999/":    "must have a port",
		"https://exa mple.com":          "is no URL",
	} {
		f.in.Step.Webhook.URL = u
		if err := f.fails(t, "webhook.url", want); !step.IsTerminal(err) {
			t.Errorf("%s is tried again", u)
		}
	}
}

func TestAuditCallsNothing(t *testing.T) {
	f := newWebhookFixture(t, answers(http.StatusOK))
	f.in.Run.Spec.Mode = lifecyclev1.ModeAudit
	result, err := execute(t, f.env, f.in)
	if err != nil || !result.Done || result.Message != "would call "+f.endpoint.URL || len(f.calls) != 0 {
		t.Errorf("got %+v, %v, %d calls", result, err, len(f.calls))
	}
}
