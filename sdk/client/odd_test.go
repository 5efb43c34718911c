package client_test

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// effect is what a call does to its caller, from what lets pass to what stops most.
type effect int

const (
	passes effect = iota
	waits
	stops
)

func (e effect) String() string { return [...]string{"passes", "waits", "is an error"}[e] }

// oddAnswers are answers that readers understand in different ways, with their effect by failure
// policy. The last two columns are what they do to Cluster API's own client, v1.14.2. TestUpstreamTable runs that
// client again: SLIPWAY_DEEP=1 go test ./client -run TestUpstreamTable.
var oddAnswers = []struct {
	body                         string
	fail, ignore                 effect
	upstreamFail, upstreamIgnore effect
}{
	{`{"status":"Success"}`, passes, passes, passes, passes},
	{`{"status":"Success","x":1}`, passes, passes, passes, passes},
	{`{"status":"Success","retryAfterSeconds":0}`, passes, passes, passes, passes},
	{`{"status":"Success","retryAfterSeconds":-5}`, waits, waits, waits, waits},
	{`{"status":"Success","retryAfterSeconds":30}`, waits, waits, waits, waits},
	{`{"status":"Failure","retryAfterSeconds":30}`, stops, stops, stops, stops},
	{`{"status":"success"}`, stops, stops, stops, stops},
	{`{"status":"FAILURE"}`, stops, stops, stops, stops},
	{`{"status":null}`, stops, stops, stops, stops},
	{`{}`, stops, stops, stops, stops},
	{`null`, stops, stops, stops, stops},
	{`{"Status":"Failure"}`, stops, stops, stops, stops},
	{`{"Status":"Success"}`, passes, passes, passes, passes},
	{`{"status":"Success","Message":7}`, stops, passes, stops, passes},
	{`{"status":"Success","retryafterseconds":"30s"}`, stops, passes, stops, passes},
	{`{"status":"Success","retryafterseconds":true}`, stops, passes, stops, passes},
	{`{"status":"Success","retryafterseconds":3e1}`, stops, waits, stops, passes},
	{`{"x":1}{"status":"Success"}`, stops, stops, stops, stops},
	{`{"status":"Success","Status":"Failure"}`, stops, stops, stops, stops},
	{`{"status":"Success","retryafterseconds":30}`, waits, waits, waits, waits},
	{`{"status":"Success","\u0052etryAfterSeconds":30}`, waits, waits, waits, waits},
	{`{"\u017ftatus":"Failure","status":"Success"}`, stops, stops, passes, passes},
	{`{"status":"Success","status":"Failure"}`, stops, stops, stops, stops},
	{`{"status":"Failure","status":"Success"}`, stops, stops, passes, passes},
	{`{"status":"Success","retryAfterSeconds":0,"retryAfterSeconds":30}`, stops, waits, waits, waits},
	{`{"status":"Success","retryAfterSeconds":30,"retryAfterSeconds":0}`, stops, waits, passes, passes},
	{`{"status":"Success","retryAfterSeconds":30,"x":1,"x":2}`, stops, waits, waits, waits},
	{`{"x":1,"x":2}`, stops, stops, stops, stops},
	{`{"kind":"BeforeClusterDeleteResponse","status":"Success"}`, stops, passes, passes, passes},
	{`{"kind":"BeforeClusterDeleteResponse","status":"Failure"}`, stops, stops, stops, stops},
	{`{"kind":"BeforeClusterDeleteResponse","status":"Success","retryAfterSeconds":30}`, stops, waits, waits, waits},
	{`{"apiVersion":"x/v9","kind":"BeforeClusterCreateResponse","status":"Success","retryAfterSeconds":30}`, stops, waits, waits, waits},
	{`{"status":"Success"}{}`, stops, passes, passes, passes},
	{`{"status":"Success","retryAfterSeconds":30}{}`, stops, waits, waits, waits},
	{`{"status":"Success"}{"status":"Failure"}`, stops, stops, passes, passes},
	{`{"status":"Failure"} and more`, stops, stops, stops, stops},
	{"{\"status\":\"Failure\",\"message\":\"\xff\"}", stops, stops, stops, stops},
	{"{\"status\":\"Success\",\"retryAfterSeconds\":30,\"message\":\"\xff\"}", stops, waits, waits, waits},
	{"{\"status\":\"Success\",\"message\":\"\xff\"}", stops, passes, passes, passes},
	{"\xef\xbb\xbf{\"status\":\"Success\"}", stops, passes, stops, passes},
	{"\xef\xbb\xbf{\"status\":\"Failure\"}", stops, stops, stops, passes},
	{`{"status":"Success","x":NaN}`, stops, passes, stops, passes},
	{`{"x":NaN,"status":"Failure"}`, stops, stops, stops, passes},
	{`{"status":"Success","retryAfterSeconds":2147483648}`, stops, waits, stops, passes},
	{`{"status":"Success","retryAfterSeconds":1e1}`, stops, waits, stops, passes},
	{`{"status":"Success","retryAfterSeconds":10.0}`, stops, waits, stops, passes},
	{`{"status":"Success","retryAfterSeconds":"10"}`, stops, waits, stops, passes},
	{`{"retryAfterSeconds":3600,"status":5}`, stops, stops, stops, waits},
	{`{"status":"Success","retryAfterSeconds":3600,"message":5}`, stops, waits, stops, waits},
	{`{"status":"Success","message":5}`, stops, passes, stops, passes},
	{`{"status":"Failure"`, stops, stops, stops, passes},
	{`{"status":"Succ`, stops, passes, stops, passes},
	{`[{"status":"Failure"}]`, stops, passes, stops, passes},
	{`<html>`, stops, passes, stops, passes},
}

// oddTransfers are answers that do not arrive as a plain body of known length.
var oddTransfers = []struct {
	name                         string
	serve                        http.HandlerFunc
	fail, ignore                 effect
	upstreamFail, upstreamIgnore effect
}{
	{"compressed refusal", encoded("gzip", zip(refusal)), stops, stops, stops, stops},
	{"compressed wait", encoded("gzip", zip(wait)), stops, waits, waits, waits},
	{"compressed success", encoded("gzip", zip(success)), stops, passes, passes, passes},
	{"compressed text before a refusal", encoded("gzip", zip(`{"message":"`+strings.Repeat("x", 1<<20)+`","status":"Failure"}`)), stops, stops, stops, stops},
	{"compressed refusal, said in capitals", encoded("GZIP", zip(refusal)), stops, stops, stops, stops},
	{"compressed wait, said in capitals", encoded("GZIP", zip(wait)), stops, waits, waits, waits},
	{"compressed twice", encoded("gzip, gzip", zip(zip(refusal))), stops, passes, stops, passes},
	{"said to be compressed refusal", encoded("br", refusal), stops, stops, stops, stops},
	{"said to be compressed wait", encoded("deflate", wait), stops, waits, waits, waits},
	{"said to be gzip", encoded("gzip", refusal), stops, stops, stops, passes},
	{"refusal that breaks off", said("Content-Length: 99", refusal), stops, stops, stops, stops},
	{"wait that breaks off", said("Content-Length: 99", wait), stops, waits, waits, waits},
	{"success that breaks off", said("Content-Length: 99", success), stops, passes, passes, passes},
	{"refusal without the last chunk", said("Transfer-Encoding: chunked", "23\r\n"+refusal+"\r\n"), stops, stops, stops, stops},
	{"wait before a bad chunk", said("Transfer-Encoding: chunked", "2b\r\n"+wait+"\r\nzz\r\n"), stops, waits, waits, waits},
	{"refusal of another place", elsewhere(http.StatusTemporaryRedirect, refusal), stops, passes, stops, passes},
	{"wait of another place", elsewhere(http.StatusPermanentRedirect, wait), stops, passes, stops, passes},
	{"refusal without content", elsewhere(http.StatusNoContent, ""), stops, passes, stops, passes},
	{"nothing of what was said", said("Content-Length: 99", ""), stops, passes, stops, passes},
	{"refusal behind 21 MiB", hooktest.Body(`{"message":"` + strings.Repeat("x", 21<<20) + `","status":"Failure"}`), stops, stops, stops, stops},
}

const (
	refusal = `{"status":"Failure","message":"no"}`
	wait    = `{"status":"Success","retryAfterSeconds":30}`
	success = `{"status":"Success"}`
)

func zip(text string) string {
	var b strings.Builder
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.String()
}

func encoded(encoding, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", encoding)
		_, _ = w.Write([]byte(body))
	}
}

// elsewhere sends the caller to a place that answers with a body.
func elsewhere(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("elsewhere") {
			_, _ = w.Write([]byte(body))
			return
		}
		w.Header().Set("Location", r.URL.Path+"?elsewhere")
		w.WriteHeader(code)
	}
}

// said answers with a header and what need not be what it says, and closes the connection.
func said(header, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, buffer, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = fmt.Fprintf(buffer, "HTTP/1.1 200 OK\r\n%s: %s\r\n%s\r\n\r\n%s", hook.RequestIDHeader, r.Header.Get(hook.RequestIDHeader), header, body)
		_ = buffer.Flush()
		_ = conn.Close()
	}
}

// TestOddAnswers: no answer lets a caller pass whom it stops or holds back by any reading,
// upstream's client for one, whatever the failure policy.
func TestOddAnswers(t *testing.T) {
	judge := func(name string, serve http.HandlerFunc, policy runtimev1.FailurePolicy, want, upstream effect) {
		got, err := effectOf(t, policy, serve)
		if got != want {
			t.Errorf("%q, policy %s: %s (%v), want: %s", name, policy, got, err, want)
		}
		if want < upstream {
			t.Errorf("%q, policy %s: the table has %s, which is more permissive than upstream's: %s", name, policy, want, upstream)
		}
	}
	for _, c := range oddAnswers {
		judge(c.body, hooktest.Body(c.body), fail, c.fail, c.upstreamFail)
		judge(c.body, hooktest.Body(c.body), ignore, c.ignore, c.upstreamIgnore)
	}
	for _, c := range oddTransfers {
		judge(c.name, c.serve, fail, c.fail, c.upstreamFail)
		judge(c.name, c.serve, ignore, c.ignore, c.upstreamIgnore)
	}
}

// effectOf calls an extension that answers so by this SDK's client.
func effectOf(t *testing.T, policy runtimev1.FailurePolicy, serve http.HandlerFunc) (effect, error) {
	t.Helper()
	_, k := faulty(t, policy, 30, serve)
	response, err := create(t.Context(), t, k)
	switch {
	case err != nil:
		return stops, err
	case response.RetryAfterSeconds != 0:
		return waits, nil
	}
	return passes, nil
}
