package lifecycle

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// key signs the calls of webhook steps.
var key = []byte("0123456789abcdef0123456789abcdef")

// delivery is one call of a webhook step.
type delivery struct{ id, body string }

// receiver is the endpoint of the webhook steps of all tests. Its path is the
// namespace of the caller.
type receiver struct {
	server *httptest.Server

	mu         sync.Mutex
	callers    map[string]*effects
	deliveries map[string][]delivery
	faults     map[string]error
}

func startReceiver() *receiver {
	r := &receiver{callers: map[string]*effects{}, deliveries: map[string][]delivery{}, faults: map[string]error{}}
	r.server = httptest.NewUnstartedServer(r)
	r.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.server.StartTLS()
	return r
}

func (r *receiver) stop() { r.server.Close() }

// expect tells who calls from a namespace.
func (r *receiver) expect(namespace string, caller *effects) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.callers[namespace] = caller
}

// received returns the calls from a namespace. The error tells of calls that were not
// signed as they should be.
func (r *receiver) received(namespace string) ([]delivery, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deliveries[namespace], r.faults[namespace]
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	namespace := strings.Trim(q.URL.Path, "/")
	r.mu.Lock()
	caller := r.callers[namespace]
	r.mu.Unlock()
	if caller == nil {
		http.NotFound(w, q)
		return
	}
	life := caller.life.Load()
	body, err := io.ReadAll(q.Body)
	if err != nil || !caller.pass(life, "call webhook", func() { r.note(namespace, q, string(body)) }) {
		panic(http.ErrAbortHandler)
	}
}

func (r *receiver) note(namespace string, q *http.Request, body string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := q.Header.Get("Webhook-Id")
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, id+"."+q.Header.Get("Webhook-Timestamp")+"."+body)
	if want, got := "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)), q.Header.Get("Webhook-Signature"); got != want {
		r.faults[namespace] = fmt.Errorf("the signature is %q, want %q", got, want)
	}
	r.deliveries[namespace] = append(r.deliveries[namespace], delivery{id, body})
}
