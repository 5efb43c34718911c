package logs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/test/logs"
)

const (
	manager = `{"ts":1764053000000.123,"caller":"hooks/handler.go:226","msg":"Created a LifecycleRun","v":0`
	agent   = `{"ts":1764053000000.123,"level":"INFO","msg":"The operation ends","Host":{"name":"host-1","namespace":"default"}`
)

func TestGoodLines(t *testing.T) {
	for _, line := range []string{
		manager + `}`,
		manager + `,"logger":"a.b","LifecycleRun":{"name":"r","namespace":"n"},"Cluster":{"name":"edge","namespace":"n"},"claim":"c","operation":"o","phase":"Reset","step":"s","reason":"r","hook":"h"}`,
		`{"ts":1764053000000,"caller":"a.go:1","msg":"It failed","err":"one\ntwo"}`,
		manager + `,"controller":"host","controllerKind":"Host","namespace":"n","name":"x","reconcileID":"1-2"}`,
		`{"ts":1764053000000,"caller":"webhook/server.go:242","msg":"Serving webhook server","v":0,"host":"127.0.0.1","port":1}`,
		`{"ts":1764053000000.1,"logger":"UnhandledError","caller":"filters/wrap.go:53","msg":"Timeout or abort while handling","method":"GET","URI":"/readyz","auditID":"4711"}`,
		`{"ts":1764053000000.1,"caller":"trace/trace.go:236","msg":"Trace[1]: \"Reflector WatchList\" (total time: 11170ms):\nTrace[1]: [11.17s] END\n","v":0}`,
		`{"level":"warn","ts":1764053000000.1,"logger":"etcd","msg":"apply request took too long","took":0.28,"expected-duration":0.1}`,
		`{"level":"warn","ts":1764053000000.1,"logger":"etcd-client","msg":"retrying of unary invoker failed","attempt":0,"error":"rpc error"}`,
		agent + `,"claim":"c","Node":{"name":"host-1"},"hostID":"4711"}`,
	} {
		if wrong := logs.Line([]byte(line)); len(wrong) > 0 {
			t.Errorf("%s: %q", line, wrong)
		}
	}
}

func TestBadLines(t *testing.T) {
	for line, want := range map[string]string{
		"I1125 06:00:00.000000 1 a.go:1] text": "is no JSON object",
		"goroutine 1 [running]:":               "is no JSON object",
		"":                                     "is no JSON object",
		`["ts"]`:                               "is no JSON object",
		manager:                                "is no JSON object",
		manager + `} {"a":1}`:                  "is no JSON object",
		manager + `}slipway-manager: it ends`:  "is no JSON object",
		manager + `,"step":"a","step":"b"}`:    `key "step": is there twice`,
		`{"caller":"a.go:1","msg":"m"}`:        "ts is <nil>",
		`{"ts":1764053000.1,"caller":"a.go:1","msg":"m"}`:                                 "ts is 1.7640530001e+09",
		`{"ts":"2026-11-25","caller":"a:1","msg":"m"}`:                                    "ts is 2026-11-25",
		`{"ts":1764053000000,"caller":"a.go:1"}`:                                          "msg is <nil>",
		`{"ts":1764053000000,"caller":"a:1","msg":" "}`:                                   "msg is  ",
		`{"ts":1764053000000,"caller":"a:1","msg":"a\nb"}`:                                "msg has several lines",
		`{"ts":1764053000000,"msg":"m"}`:                                                  "want either caller or level",
		manager + `,"level":"info"}`:                                                      "want either caller or level",
		`{"ts":1764053000000,"caller":"a:1","msg":"m","v":"0"}`:                           "v is 0, want a number",
		manager + `,"err":{}}`:                                                            `key "err": is map[], want a text`,
		manager + `,"step":0}`:                                                            `key "step": is 0, want a text`,
		manager + `,"claim":7}`:                                                           `key "claim": is 7, want a text`,
		manager + `,"error":"e"}`:                                                         `key "error": has the name err`,
		manager + `,"host":"host-1"}`:                                                     `key "host": has the name Host`,
		`{"ts":1764053000000,"caller":"controller/controller.go:1","msg":"m","host":"h"}`: `key "host": has the name Host`,
		`{"ts":1764053000000,"caller":"host/wrap.go:1","msg":"m","URI":"/readyz"}`:        `key "URI": is a kind and has /readyz`,
		`{"level":"warn","ts":1764053000.1,"logger":"etcd","msg":"m"}`:                    "ts is 1.7640530001e+09",
		manager + `,"hostname":"host-1"}`:                                                 `key "hostname": has the name Host`,
		manager + `,"Host.name":"host-1"}`:                                                `key "Host.name": has the name Host`,
		manager + `,"host_name":"host-1"}`:                                                `key "host_name": has the name Host`,
		manager + `,"clusterNamespace":"n"}`:                                              `key "clusterNamespace": has the name Cluster`,
		manager + `,"HostName":"host-1"}`:                                                 `key "HostName": has the name Host`,
		manager + `,"claimID":"c"}`:                                                       `key "claimID": has the name claim`,
		manager + `,"Claim":"c"}`:                                                         `key "Claim": has the name claim`,
		manager + `,"operation-id":"o"}`:                                                  `key "operation-id": has the name operation`,
		manager + `,"cluster":"edge"}`:                                                    `key "cluster": has the name Cluster`,
		manager + `,"policyName":"p"}`:                                                    `key "policyName": has the name LifecyclePolicy`,
		manager + `,"run":"r"}`:                                                           `key "run": has the name LifecycleRun`,
		manager + `,"drain delay":"1s"}`:                                                  `key "drain delay": write it in lowerCamelCase`,
		manager + `,"Host":"default/host-1"}`:                                             `key "Host": is a kind and has default/host-1`,
		manager + `,"Host":{"namespace":"n"}}`:                                            `key "Host": is a kind whose object has no name`,
		manager + `,"Host":{"name":"h","uid":"1"}}`:                                       `key "Host": is a kind whose object has the field uid`,
	} {
		if wrong := logs.Line([]byte(line)); len(wrong) != 1 || !strings.HasPrefix(wrong[0], want) {
			t.Errorf("%s: %q, want %q", line, wrong, want)
		}
	}
}

func TestJudge(t *testing.T) {
	log := manager + "}\n" + manager + `,"host":"a"}` + "\nplain\n" + manager + `,"host":"b"}` + "\n"
	if wrong := logs.Line([]byte(agent+"}"), "Host", "claim"); !slices.Equal(wrong, []string{"has no claim"}) {
		t.Errorf("of a line without a claim: %q", wrong)
	}
	lines, wrong, err := logs.Judge(strings.NewReader(log))
	want := []string{
		"is no JSON object (in 1 lines), line 3: plain",
		`key "host": has the name Host in docs/observability.md (in 2 lines), line 2: ` + manager + `,"host":"a"}`,
	}
	if err != nil || lines != 4 || !slices.Equal(wrong, want) {
		t.Errorf("%d lines, %q, %v; want 4, %q", lines, wrong, err, want)
	}
	if _, _, err := logs.Judge(strings.NewReader(strings.Repeat("x", 2<<20))); err == nil || !strings.HasPrefix(err.Error(), "line 1: ") {
		t.Errorf("of a line without an end: %v", err)
	}
}
