package client_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/internal/level"
)

// TestUpstreamTable records again what upstream's client makes of the odd answers: it serves each one to
// Cluster API's own client, in the version of the root module, and compares the table with what it did.
// A row of the table that is changed must be recorded; the failure of this test has the right value.
func TestUpstreamTable(t *testing.T) {
	level.Deep(t)
	type row struct {
		name         string
		serve        http.HandlerFunc
		fail, ignore effect
	}
	var rows []row
	for _, c := range oddAnswers {
		rows = append(rows, row{c.body, hooktest.Body(c.body), c.upstreamFail, c.upstreamIgnore})
	}
	for _, c := range oddTransfers {
		rows = append(rows, row{c.name, c.serve, c.upstreamFail, c.upstreamIgnore})
	}
	serve := make([]http.HandlerFunc, 0, len(rows))
	for _, r := range rows {
		serve = append(serve, r.serve)
	}
	effects := record(t, serve)
	for i, r := range rows {
		if got := effects[i].fail; got != r.fail.String() {
			t.Errorf("%.80q, policy Fail: upstream's client %s, the table has: %s", r.name, got, r.fail)
		}
		if got := effects[i].ignore; got != r.ignore.String() {
			t.Errorf("%.80q, policy Ignore: upstream's client %s, the table has: %s", r.name, got, r.ignore)
		}
	}
}

// TestNoMorePermissiveThanUpstream puts answers together from parts that readers understand in different ways, and
// holds that none passes here, or waits, that does more to the caller of upstream's client.
func TestNoMorePermissiveThanUpstream(t *testing.T) {
	level.Deep(t)
	bodies := mixedAnswers()
	serve := make([]http.HandlerFunc, 0, len(bodies))
	for _, b := range bodies {
		serve = append(serve, hooktest.Body(b))
	}
	for i, upstream := range record(t, serve) {
		for policy, theirs := range map[runtimev1.FailurePolicy]string{fail: upstream.fail, ignore: upstream.ignore} {
			if ours, err := effectOf(t, policy, serve[i]); rank(theirs) > ours {
				t.Errorf("%q, policy %s: %s (%v), by upstream's client it %s", bodies[i], policy, ours, err, theirs)
			}
		}
	}
}

// mixedAnswers are all orders of a status, a retry and something third, each as some writers spell it.
func mixedAnswers() []string {
	var bodies []string
	status := []string{`"status":"Success"`, `"status":"Failure"`, `"Status":"Failure"`, `"status":"\u0046ailure"`, `"status":["Failure"]`, `"status":{"status":"Failure"}`, `"status":""`}
	retry := []string{``, `"retryAfterSeconds":30`, `"RETRYAFTERSECONDS":30`, `"retryAfterSeconds":null`, `"retryAfterSeconds":-0`, `"retryAfterSeconds":-2147483648`, `"retryAfterSeconds":0.5`,
		`"retryAfter\u0053econds":30`, `"retryAfter\u017feconds":30`, `"retryAfterSeconds":{"x":30}`, `"retryAfterSeconds":true`}
	third := []string{``, `"message":"x"`, `"message":null`, `"message":"\ud800"`, `"message":{"status":"Failure"}`, `"commonResponse":{"status":"Failure"}`, `"apiVersion":7`, `"status":"Success"`, `"retryAfterSeconds":0`, `"":""`}
	for _, s := range status {
		for _, r := range retry {
			for _, m := range third {
				for _, parts := range [][]string{{s, r, m}, {m, r, s}} {
					parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
					bodies = append(bodies, "{"+strings.Join(parts, ",")+"}")
				}
			}
		}
	}
	slices.Sort(bodies)
	return slices.Compact(bodies)
}

// rank is the effect of a text of the recorder; what it does not know is the strictest.
func rank(text string) effect {
	for _, e := range []effect{passes, waits} {
		if e.String() == text {
			return e
		}
	}
	return stops
}

// recorded is what an answer does to the caller of upstream's client, by failure policy.
type recorded struct{ fail, ignore string }

// record serves the answers to testdata/upstream, which runs in a module below Cluster API's path: that may import
// its internal packages.
func record(t *testing.T, answers []http.HandlerFunc) []recorded {
	t.Helper()
	server := hooktest.StartFaults(t, func(w http.ResponseWriter, r *http.Request) {
		segment, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		i, err := strconv.Atoi(segment)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		answers[i](w, r)
	})
	type call struct {
		URL    string
		CA     []byte
		Policy runtimev1.FailurePolicy
	}
	var calls []call
	for i := range answers {
		for _, policy := range []runtimev1.FailurePolicy{fail, ignore} {
			calls = append(calls, call{fmt.Sprintf("%s/%d", server.URL, i), server.CA.PEM, policy})
		}
	}
	source, err := os.ReadFile("testdata/upstream/main.go")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.work.sum"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"main.go":     string(source),
		"go.mod":      "module sigs.k8s.io/cluster-api/recorder\n\ngo 1.26.0\n",
		"go.work":     fmt.Sprintf("go 1.26.0\n\nuse (\n\t.\n\t%q\n)\n\nreplace github.com/slipway-dev/slipway/sdk => %q\n", root, filepath.Join(root, "sdk")),
		"go.work.sum": string(sums),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "go", "run", ".")
	command.Dir = dir
	command.Env = append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work"), "GOFLAGS=-trimpath", "CGO_ENABLED=0")
	var out, log bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(in), &out, &log
	if err := command.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	var effects []string
	if err := json.Unmarshal(out.Bytes(), &effects); err != nil {
		t.Fatal(err)
	}
	if len(effects) != len(calls) {
		t.Fatalf("%d effects of %d calls", len(effects), len(calls))
	}
	var all []recorded
	for pair := range slices.Chunk(effects, 2) {
		all = append(all, recorded{fail: pair[0], ignore: pair[1]})
	}
	return all
}
