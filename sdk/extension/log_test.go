package extension_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/internal/poll"
)

// heard is what a server logs.
type heard struct {
	t     testing.TB
	mu    sync.Mutex
	lines []map[string]any
}

func (h *heard) logger(verbosity int) logr.Logger {
	return funcr.NewJSON(func(line string) {
		fields := map[string]any{}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			h.t.Errorf("%v: %s", err, line)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.lines = append(h.lines, fields)
	}, funcr.Options{Verbosity: verbosity})
}

// with returns the lines with this message.
func (h *heard) with(message string) []map[string]any {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []map[string]any
	for _, line := range h.lines {
		if line["msg"] == message {
			found = append(found, line)
		}
	}
	return found
}

// wait waits until there is a line with this message whose error has this text. An error of
// a line that tells of one is under the key that the logger has for it, here "error"; others
// name it as Kubernetes' loggers do.
func (h *heard) wait(message, text string) {
	h.t.Helper()
	poll.Until(h.t, fmt.Sprintf("a line %q tells of %q", message, text), func() error {
		found := h.with(message)
		for _, line := range found {
			if strings.Contains(fmt.Sprint(line["error"], line["err"]), text) {
				return nil
			}
		}
		return fmt.Errorf("none does: %v", found)
	})
}

// TestServerTellsWhatItDoes follows a server from its first to its last line. Each
// outcome of a handler is one line, with what tells the call from others.
func TestServerTellsWhatItDoes(t *testing.T) {
	log := &heard{t: t}
	outcomes := map[string]struct {
		fn      func(context.Context, *request) (*response, error)
		message string
		field   string
		value   any
	}{
		"passes": {func(ctx context.Context, _ *request) (*response, error) {
			logr.FromContextOrDiscard(ctx).Info("Looked at the quota", "left", 3)
			return nil, nil
		}, "The handler answered", "level", 1.0},
		"fails": {func(context.Context, *request) (*response, error) { return nil, errors.New("no quota") }, "The handler returned an error", "error", "no quota"},
		"waits": {func(context.Context, *request) (*response, error) {
			return nil, extension.RetryAfter(time.Minute, "soon")
		}, "The handler asks to be called again", "retryAfterSeconds", 60.0},
		"panics":  {func(context.Context, *request) (*response, error) { panic("nil map") }, "A handler panicked", "error", "panic: nil map"},
		"refuses": {refusing, "The handler answered with Failure", "message", "not today"},
	}
	ext := hooktest.Start(t, extension.Options{Logger: log.logger(1)}, func(s *extension.Server) error {
		var errs []error
		for name, outcome := range outcomes {
			errs = append(errs, handle(s, name, outcome.fn))
		}
		return errors.Join(errs...)
	})
	for name, outcome := range outcomes {
		post(ext.Server, strings.TrimSuffix(createPath, "h")+name, `{"cluster":{"metadata":{"namespace":"team-a","name":"demo"}}}`, hook.RequestIDHeader, "id-of-"+name)
		lines := log.with(outcome.message)
		if len(lines) != 1 || lines[0][outcome.field] != outcome.value {
			t.Errorf("%s: got the lines %v, want one with %s %v", name, lines, outcome.field, outcome.value)
			continue
		}
		wantCall(t, lines[0], name)
	}
	if lines := log.with("Looked at the quota"); len(lines) != 1 || lines[0]["left"] != 3.0 {
		t.Errorf("the handler's own lines are %v", lines)
	} else {
		wantCall(t, lines[0], "passes")
	}
	log.wait("Listening", "")
	if err := ext.Stop(); err != nil {
		t.Error(err)
	}
	listening := log.with("Listening")[0]
	if address := "https://" + fmt.Sprint(listening["address"]); address != ext.URL || fmt.Sprint(listening["handlers"]) != "[fails panics passes refuses waits]" {
		t.Errorf("the first line is %v", listening)
	}
	if len(log.with("Shutting down")) != 1 || len(log.with("Shut down")) != 1 {
		t.Errorf("the end is not told: %v", log.lines)
	}
}

func refusing(context.Context, *request) (*response, error) {
	r := &response{}
	r.Status, r.Message = hooksv1.ResponseStatusFailure, "not today"
	return r, nil
}

// wantCall holds that a line tells which call it is of.
func wantCall(t *testing.T, line map[string]any, handler string) {
	t.Helper()
	for key, want := range map[string]any{
		"hook": "BeforeClusterCreate", "hookVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "handler": handler, "requestID": "id-of-" + handler,
	} {
		if line[key] != want {
			t.Errorf("%s: %s is %v, want %v", line["msg"], key, line[key], want)
		}
	}
	if cluster, ok := line["Cluster"].(map[string]any); !ok || cluster["name"] != "demo" || cluster["namespace"] != "team-a" {
		t.Errorf("%s: the Cluster is %v", line["msg"], line["Cluster"])
	}
}

// TestCallsWithoutIDGetOne names the calls of callers that give no ID, such as Cluster
// API's, and of those whose ID does not fit into a log.
func TestCallsWithoutIDGetOne(t *testing.T) {
	for name, given := range map[string]string{"none": "", "two lines": "a b", "too long": strings.Repeat("a", 200)} {
		t.Run(name, func(t *testing.T) {
			log := &heard{t: t}
			s := newServer(t, extension.Options{Logger: log.logger(1)})
			if err := handle(s, "h", answerNil); err != nil {
				t.Fatal(err)
			}
			w := post(s, createPath, "{}", hook.RequestIDHeader, given)
			lines := log.with("The handler answered")
			if len(lines) != 1 || len(fmt.Sprint(lines[0]["requestID"])) < 20 || lines[0]["requestID"] == given || lines[0]["Cluster"] != nil {
				t.Errorf("the lines are %v", lines)
			}
			if w.Header().Get(hook.RequestIDHeader) != "" {
				t.Error("the answer repeats an ID that the caller did not give, and would refuse")
			}
		})
	}
}

// TestRefusedCertificatesAreTold lets callers connect that the server does not trust,
// or that don't trust the server.
func TestRefusedCertificatesAreTold(t *testing.T) {
	log, callers := &heard{t: t}, hooktest.NewCA(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, callers.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	ext := hooktest.Start(t, extension.Options{ClientCAFile: file, Logger: log.logger(0)}, func(s *extension.Server) error { return handle(s, "h", answerNil) })
	for range 3 {
		if code, err := get(httpClient(ext.CA), ext.URL+"/metrics"); err != nil || code != http.StatusUnauthorized {
			t.Fatalf("without a certificate: %d, %v", code, err)
		}
	}
	refused := log.with("A caller was refused")
	if len(refused) != 1 || refused[0]["certificate"] != "none" || refused[0]["path"] != "/metrics" {
		t.Errorf("three callers without a certificate are told as %v, want one line", refused)
	}
	const connection = "A connection was refused, or the caller refused it"
	stranger, err := tls.X509KeyPair(hooktest.NewCA(t).Issue("stranger"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := get(httpClient(ext.CA, stranger), ext.URL+"/metrics"); err == nil {
		t.Error("a certificate of a CA that nobody knows was accepted")
	}
	log.wait(connection, "certificate signed by unknown authority")
	if _, err := get(httpClient(hooktest.NewCA(t)), ext.URL+"/metrics"); err == nil {
		t.Error("the client trusts a CA that it does not know")
	}
	log.wait(connection, "remote error: tls")
}

// TestRefusalsDoNotFloodTheLog sends bad requests: each address, path and code is told
// once a minute, and no more than 256 in all.
func TestRefusalsDoNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &heard{t: t}
		s := newServer(t, extension.Options{Logger: log.logger(0)})
		if err := handle(s, "h", answerNil); err != nil {
			t.Fatal(err)
		}
		bad := func(address string) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, createPath, strings.NewReader("<xml>"))
			r.RemoteAddr = address
			s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		}
		told := func(want int) {
			t.Helper()
			if got := len(log.with("A request failed")); got != want {
				t.Errorf("told %d times, want %d", got, want)
			}
		}
		bad("192.0.2.1:1000")
		bad("192.0.2.1:1001")
		told(1)
		if line := log.with("A request failed")[0]; line["code"] != 400.0 || line["handler"] != "h" || line["err"] == nil {
			t.Errorf("the line is %v", line)
		}
		time.Sleep(time.Minute)
		bad("192.0.2.1:1002")
		told(2)
		for i := range 1000 {
			bad(fmt.Sprintf("[2001:db8::%x]:1000", i))
		}
		told(257)
		time.Sleep(time.Minute)
		bad("192.0.2.1:1003")
		told(258)
	})
}
