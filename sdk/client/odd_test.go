package client_test

import (
	"testing"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

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
// policy. What they do to upstream's client was recorded from Cluster API v1.14.2: a test in
// its internal/runtime/client served each body to CallAllExtensions of one handler of
// BeforeClusterCreate; an error is "stops", a retryAfterSeconds other than 0 "waits".
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
	{`{"Status":"Success"}`, stops, stops, passes, passes},
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

// TestOddAnswers: no answer lets a caller pass whom it stops or holds back by any reading,
// upstream's client for one, whatever the failure policy.
func TestOddAnswers(t *testing.T) {
	for _, c := range oddAnswers {
		for _, policy := range []struct {
			name           string
			want, upstream effect
		}{{"Fail", c.fail, c.upstreamFail}, {"Ignore", c.ignore, c.upstreamIgnore}} {
			got := stops
			_, k := faulty(t, map[string]runtimev1.FailurePolicy{"Fail": fail, "Ignore": ignore}[policy.name], 30, hooktest.Body(c.body))
			response, err := create(t.Context(), t, k)
			switch {
			case err != nil:
			case response.RetryAfterSeconds != 0:
				got = waits
			default:
				got = passes
			}
			if got != policy.want {
				t.Errorf("%q, policy %s: %s (%v), want: %s", c.body, policy.name, got, err, policy.want)
			}
			if policy.want < policy.upstream {
				t.Errorf("%q, policy %s: the table has %s, which is more permissive than upstream's: %s", c.body, policy.name, policy.want, policy.upstream)
			}
		}
	}
}
