package client_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
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
	answers := strangeTransfers()
	for _, body := range slices.Concat(mixedAnswers(), strangeAnswers()) {
		answers[body] = hooktest.Body(body)
	}
	names := slices.Sorted(maps.Keys(answers))
	serve := make([]http.HandlerFunc, 0, len(answers))
	for _, name := range names {
		serve = append(serve, answers[name])
	}
	for i, upstream := range record(t, serve) {
		for policy, theirs := range map[runtimev1.FailurePolicy]string{fail: upstream.fail, ignore: upstream.ignore} {
			if ours, err := effectOf(t, policy, serve[i]); rank(theirs) > ours {
				t.Errorf("%.200q, policy %s: %s (%v), by upstream's client it %s", names[i], policy, ours, err, theirs)
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

// strangeAnswers are answers that are no JSON to some reader, or hold a member of a response in a way of their own.
func strangeAnswers() []string {
	var bodies []string
	add := func(all ...string) { bodies = append(bodies, all...) }
	deep := func(levels int) string { return strings.Repeat(`{"x":`, levels) + "1" + strings.Repeat("}", levels) }
	lists := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	for _, core := range []string{`"status":"Failure"`, `"status":"Success","retryAfterSeconds":30`, `"status":"Success"`} {
		object := "{" + core + "}"
		for _, value := range []string{"\"\x00\"", `"\u0000"`, "1e999", "-", "01", "+1", ".5", "1.", "0x1", "Infinity", "'b'", strings.Repeat("9", 400), deep(9990), deep(10001), lists(200_000)} {
			add(`{"a":`+value+`,`+core+`}`, `{`+core+`,"a":`+value+`}`)
		}
		for _, before := range []string{"\x00", "// c\n", "# c\n", "\n\n\t ", "\v", "\u00a0", "\u2028", "\x1e", "[", "[[", `{"a":1}`, `{"x":`} {
			add(before + object)
		}
		for _, behind := range []string{"\x00", "/* c */", " // c", "\n\n", "]", "}", ";", object, `{"a":1}`, `[`} {
			add(object + behind)
		}
		for _, end := range []string{"", ",", `,"`, `,"a`, `,"a":"`, `,"a":{`, "]", ",}", ",,}", ";}", "/* c */}", "\x00}"} {
			add("{" + core + end)
		}
		for _, first := range []string{",", "'a':1,", "a:1,", "\x00"} {
			add("{" + first + core + "}")
		}
		for _, other := range []string{`"metadata":7`, `"metadata":{"annotations":[]}`, `"kind":7`, `"kind":null,"apiVersion":null`, `"KIND":7`, `"apiVersion":"a/b/c"`, `"kind":"Status","apiVersion":"v1"`,
			`"message":7`, `"message":["x"]`, "\"message\":\"a\nb\"", `"message":"\x41"`, `"message":"\udc00"`, `"mess\u0061ge":7`, `"Message":7`, `"MESSAGE":"x","message":"y"`} {
			add("{"+core+","+other+"}", "{"+other+","+core+"}")
		}
		add(strings.ReplaceAll(object, ":", "="), strings.ReplaceAll(object, ":", " : "), strings.ReplaceAll(object, ":", " "), strings.ReplaceAll(object, `"`, "'"), "status: Failure\n")
	}
	for _, status := range []string{`"Failure "`, `"Success "`, `"Success\u0000"`, `"Succe\u0073s"`, `"SUCCESS"`, `true`, `1`, `[]`, `{}`, `["Success"]`, `"Pending"`, "\"Suc\ncess\""} {
		add(`{"status":`+status+`}`, `{"retryAfterSeconds":30,"status":`+status+`}`, `{"status":`+status+`,"retryAfterSeconds":0}`)
	}
	for _, name := range []string{"status ", `status\u0000`, `st\u0061tus`, "STATUS", "\u017ftatus", "status\u200b"} {
		add(`{"`+name+`":"Failure"}`, `{"`+name+`":"Success"}`, `{"status":"Success","`+name+`":"Failure"}`, `{"`+name+`":"Failure","status":"Success"}`)
	}
	for _, name := range []string{"retryAfterSeconds", "retryafterseconds", `retryAfterSecond\u0073`, "retryAfter\u017feconds", "retry_after_seconds"} {
		for _, wait := range []string{`30`, `"30"`, `" 30 "`, `"30s"`, `"0x1e"`, `0x1e`, `030`, `3e1`, `30.0`, `0.4`, `-0`, `-0.0`, `0e0`, `+30`, `1e999`, `1e-400`, `99999999999999999999`, `2147483648`, `4294967296`,
			`true`, `[30]`, `{"a":30}`, `null`, `""`, `"0"`, `NaN`, `"inf"`, `"NaN"`, `30,31`, `"٣٠"`, `1_0`} {
			add(`{"status":"Success","`+name+`":`+wait+`}`, `{"status":"Success","`+name+`":`+wait+`,"retryAfterSeconds":0}`, `{"`+name+`":`+wait+`,"status":"Success"`, `{"`+name+`":`+wait+`,"status":"Failure"}`)
		}
	}
	return bodies
}

// strangeTransfers are answers by HTTP that say something odd of their body.
func strangeTransfers() map[string]http.HandlerFunc {
	all := map[string]http.HandlerFunc{}
	for _, body := range []string{refusal, wait, success} {
		answer := func(name, header, value string, code int, sent string) {
			all[fmt.Sprintf("%s %s: %s, %d, %s", name, header, value, code, body)] = func(w http.ResponseWriter, _ *http.Request) {
				w.Header()[header] = []string{value}
				w.WriteHeader(code)
				_, _ = w.Write([]byte(sent))
			}
		}
		for _, value := range []string{"", "text/html; charset=utf-8", "application/json; charset=utf-16", "application/yaml", `"`, "application/json, text/plain"} {
			answer("plain", "Content-Type", value, http.StatusOK, body)
		}
		for _, value := range []string{"gzip", "GZIP", "x-gzip", "identity", "Identity", "deflate", "br", "zstd", "gzip, identity", "gzip;q=1", "chunked"} {
			answer("plain", "Content-Encoding", value, http.StatusOK, body)
			answer("compressed", "Content-Encoding", value, http.StatusOK, zip(body))
			answer("cut", "Content-Encoding", value, http.StatusOK, zip(body)[:len(zip(body))-9])
		}
		for code := 200; code < 600; code += 1 + code/200 {
			answer("plain", "Content-Type", "application/json", code, body)
		}
		answer("UTF-16", "Content-Type", "application/json", http.StatusOK, "\xff\xfe"+strings.ReplaceAll(body, "", "\x00"))
		chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n", len(body), body)
		for header, sent := range map[string]string{
			"Content-Length: 3\r\nContent-Length: 3": body, "Content-Length: 5": body, "Content-Length: 0": body, "Content-Length: -1": body, "Connection: close": body,
			"Content-Length: 5\r\nTransfer-Encoding: chunked": chunk + "\r\n", "Transfer-Encoding: chunked\r\nTrailer: X": chunk + "X: y\r\n\r\n",
		} {
			all[header+" "+body] = said(header, sent)
		}
	}
	return all
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
