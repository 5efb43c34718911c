package conformance_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/conformance"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

func catalog(t *testing.T) *hook.Catalog {
	t.Helper()
	c := hook.NewCatalog()
	if err := capi.AddToCatalog(c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOwnServerConforms(t *testing.T) {
	ext := hooktest.Start(t, extension.Options{}, func(s *extension.Server) error {
		return extension.Handle(s, capi.BeforeClusterCreate, "create", func(context.Context, *hooksv1.BeforeClusterCreateRequest) (*hooksv1.BeforeClusterCreateResponse, error) {
			return nil, nil
		})
	})
	hooktest.Conformance(t, conformance.Options{URL: ext.URL, CABundle: ext.CA.PEM, Catalog: catalog(t)})
}

// extensionOf is a server without this SDK that does everything right, but for what the
// test does instead.
type extensionOf struct {
	hook, version, policy string
	// answer to a request that can be read; default: Success.
	answer func(request map[string]any, n int64) string
	// serve answers instead of the server, if it returns true.
	serve func(w http.ResponseWriter, r *http.Request) bool

	calls atomic.Int64
}

func (e *extensionOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(hook.RequestIDHeader, r.Header.Get(hook.RequestIDHeader))
	if e.serve != nil && e.serve(w, r) {
		return
	}
	group := cmp.Or(e.version, "hooks.runtime.cluster.x-k8s.io/v1alpha1")
	name := cmp.Or(e.hook, "BeforeClusterCreate")
	switch r.URL.Path {
	case "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery":
		_, _ = fmt.Fprintf(w, `{"status":"Success","handlers":[{"name":"h","failurePolicy":%q,"requestHook":{"apiVersion":%q,"hook":%q}}]}`,
			cmp.Or(e.policy, "Fail"), group, name)
	case "/" + group + "/" + strings.ToLower(name) + "/h":
		var request map[string]any
		err := json.NewDecoder(r.Body).Decode(&request)
		if settings, given := request["settings"]; err != nil || given && settings != nil && !isObject(settings) {
			http.Error(w, "no request", http.StatusBadRequest)
			return
		}
		answer := `{"status":"Success"}`
		if e.answer != nil {
			answer = e.answer(request, e.calls.Add(1))
		}
		_, _ = w.Write([]byte(answer))
	default:
		http.NotFound(w, r)
	}
}

func isObject(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

func always(answer string) func(map[string]any, int64) string {
	return func(map[string]any, int64) string { return answer }
}

// uidOf is one template of a holder, the same whatever order they have: the last by kind and name of the holder.
func uidOf(request map[string]any, holder string) (uid any) {
	last := ""
	for _, item := range request["items"].([]any) {
		fields := item.(map[string]any)
		of := fields["holderReference"].(map[string]any)
		if key := fmt.Sprint(templateOf(item), of["name"]); of["kind"] == holder && key > last {
			last, uid = key, fields["uid"]
		}
	}
	return uid
}

// patch answers GeneratePatches with a patch of the template of the Cluster.
func patch(kind, content string) func(map[string]any, int64) string {
	return func(request map[string]any, _ int64) string {
		return onePatch(uidOf(request, "Cluster"), kind, content)
	}
}

func onePatch(uid any, kind, content string) string {
	return fmt.Sprintf(`{"status":"Success","items":[{"uid":%q,"patchType":%q,"patch":%q}]}`, uid, kind, base64.StdEncoding.EncodeToString([]byte(content)))
}

// andThen answers GeneratePatches with two patches of the template of the Cluster: one that makes spec.a, and another.
func andThen(kind, content string) func(map[string]any, int64) string {
	return func(request map[string]any, _ int64) string {
		uid := uidOf(request, "Cluster")
		return fmt.Sprintf(`{"status":"Success","items":[{"uid":%q,"patchType":"JSONMergePatch","patch":%q},{"uid":%q,"patchType":%q,"patch":%q}]}`,
			uid, base64.StdEncoding.EncodeToString([]byte(`{"spec":{"a":{}}}`)), uid, kind, base64.StdEncoding.EncodeToString([]byte(content)))
	}
}

// ofDeployments answers GeneratePatches with a patch of a template of a MachineDeployment.
func ofDeployments(kind, content string) func(map[string]any, int64) string {
	return func(request map[string]any, _ int64) string {
		if uid := uidOf(request, "MachineDeployment"); uid != nil {
			return onePatch(uid, kind, content)
		}
		return `{"status":"Success"}`
	}
}

// onlyKubeadm patches the template of a kubeadm control plane alone, as most extensions patch
// certain kinds.
func onlyKubeadm(content func(n int64) string) func(map[string]any, int64) string {
	return func(request map[string]any, n int64) string {
		for _, item := range request["items"].([]any) {
			fields := item.(map[string]any)
			if fields["object"].(map[string]any)["kind"] == "KubeadmControlPlaneTemplate" {
				return fmt.Sprintf(`{"status":"Success","items":[{"uid":%q,"patchType":"JSONMergePatch","patch":%q}]}`,
					fields["uid"], base64.StdEncoding.EncodeToString([]byte(content(n))))
			}
		}
		return `{"status":"Success"}`
	}
}

func TestAnyServerConforms(t *testing.T) {
	for name, e := range map[string]*extensionOf{
		"lifecycle":    {},
		"retry":        {answer: always(`{"status":"Success","retryAfterSeconds":30,"message":"until Monday"}`)},
		"merge patch":  {hook: "GeneratePatches", answer: ofDeployments("JSONMergePatch", `{"spec":{"a":1},"metadata":{"labels":{"a":"b"},"annotations":{"a":null}}}`)},
		"JSON patch":   {hook: "GeneratePatches", answer: ofDeployments("JSONPatch", `[{"op":"test","path":"/kind","value":"KubeadmConfigTemplate"},{"op":"add","path":"/spec/a","value":1},{"op":"add","path":"/metadata/labels/a","value":"b"}]`)},
		"no change":    {hook: "GeneratePatches", answer: andThen("JSONMergePatch", "")},
		"two patches":  {hook: "GeneratePatches", answer: andThen("JSONPatch", `[{"op":"add","path":"/spec/a/b","value":1}]`)},
		"of a Cluster": {hook: "GeneratePatches", answer: patch("JSONPatch", `[{"op":"add","path":"/spec/a","value":1}]`)},
	} {
		t.Run(name, func(t *testing.T) {
			report := check(t, e)
			// The certificate of a test is short-lived, there is no CA of callers, and the
			// machine may be busy.
			for _, result := range report.Results {
				if result.Err != nil || result.Warning != "" && !strings.Contains(result.Name, "certificate") && result.Name != "latency/h" {
					t.Errorf("%s: %v %s", result.Name, result.Err, result.Warning)
				}
			}
		})
	}
}

func check(t *testing.T, e *extensionOf) *conformance.Report {
	t.Helper()
	f := hooktest.StartFaults(t, e.ServeHTTP)
	c := catalog(t)
	if err := host.AddToCatalog(c); err != nil {
		t.Fatal(err)
	}
	hooktest.Older(t, c, host.BeforeHostClaim, "v1alpha1")
	report, err := conformance.Check(t.Context(), conformance.Options{URL: f.URL, CABundle: f.CA.PEM, Catalog: c})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// Each check finds what it is for, and nothing else is wrong with that extension.
func TestCarelessExtensions(t *testing.T) {
	var running atomic.Int64
	for want, e := range map[string]*extensionOf{
		"FAIL idempotence/h": {answer: func(_ map[string]any, n int64) string {
			return map[bool]string{true: `{"status":"Success"}`, false: `{}`}[n == 1]
		}},
		"FAIL determinism/h": {answer: func(_ map[string]any, n int64) string { return fmt.Sprintf(`{"status":"Success","message":"%d"}`, n) }},
		"FAIL later versions/h": {answer: func(r map[string]any, _ int64) string {
			return fmt.Sprintf(`{"status":"Success","message":"%d"}`, len(r))
		}},
		"FAIL response/h: the response is no BeforeClusterCreateResponse": {answer: always(`{"status":"Success","retryAfterSeconds":"30"}`)},
		"FAIL response/h: the response says to be":                        {answer: always(`{"status":"Success","apiVersion":"v1","kind":"Pod"}`)},
		"warn response/h: callers pass over":                              {answer: always(`{"status":"Success","retryafterseconds":30}`)},
		"warn response/h: a Failure without a message":                    {answer: always(`{"status":"Failure"}`)},
		"FAIL retry/h: retryAfterSeconds is -1":                           {answer: always(`{"status":"Success","retryAfterSeconds":-1}`)},
		"warn retry/h: retryAfterSeconds is 7200":                         {answer: always(`{"status":"Success","message":"m","retryAfterSeconds":7200}`)},
		"warn retry/h: who waits":                                         {answer: always(`{"status":"Success","retryAfterSeconds":30}`)},
		"warn failure policy/h":                                           {policy: "Ignore"},
		"warn latency/h": {answer: func(_ map[string]any, n int64) string {
			time.Sleep(max(0, time.Duration(2-n)) * 1100 * time.Millisecond)
			return `{"status":"Success"}`
		}},
		"warn payload/h": {answer: always(`{"status":"Success","message":"` + strings.Repeat("x", 1<<20) + `"}`)},
		"FAIL patches/h: items[0]: the request has no template":                                                    {hook: "GeneratePatches", answer: always(`{"status":"Success","items":[{"uid":"mine","patchType":"JSONPatch","patch":"W10="}]}`)},
		"FAIL patches/h: items[0]: the patch changes metadata/labels: Cluster API applies only changes of spec to": {hook: "GeneratePatches", answer: patch("JSONPatch", `[{"op":"add","path":"/metadata/labels","value":{}}]`)},
		"FAIL patches/h: items[0]: the patch changes status":                                                       {hook: "GeneratePatches", answer: patch("JSONMergePatch", `{"status":{}}`)},
		"FAIL patches/h: items[0]: no JSON patch":                                                                  {hook: "GeneratePatches", answer: patch("JSONPatch", `{"spec":{}}`)},
		"FAIL patches/h: items[0]: patchType is":                                                                   {hook: "GeneratePatches", answer: patch("Strategic", `{}`)},
		"warn support/h: hooks.infrastructure.slipway.dev/v1alpha1":                                                {hook: "BeforeHostClaim", version: "hooks.infrastructure.slipway.dev/v1alpha1"},
		"FAIL unknown handler/h": {serve: func(w http.ResponseWriter, r *http.Request) bool {
			return strings.HasSuffix(r.URL.Path, "-there") && reply(w, `{"status":"Success"}`)
		}},
		"warn exercise/h: not exercised: no template":   {hook: "GeneratePatches"},
		"warn exercise/h: not exercised: every request": {answer: always(`{"status":"Failure","message":"no"}`)},
		"FAIL determinism/h: the same request again: the response is another one": {hook: "GeneratePatches", answer: onlyKubeadm(func(n int64) string {
			return fmt.Sprintf(`{"spec":{"template":{"spec":{"kubeadmConfigSpec":{"preKubeadmCommands":["%d"]}}}}}`, n)
		})},
		"FAIL patches/h: items[0]: the patch changes metadata/labels":                                                                           {hook: "GeneratePatches", answer: onlyKubeadm(func(int64) string { return `{"metadata":{"labels":{"a":"b"}}}` })},
		"FAIL patches/h: items[0]: the patch changes metadata/name":                                                                             {hook: "GeneratePatches", answer: ofDeployments("JSONPatch", `[{"op":"replace","path":"/metadata/name","value":"x"}]`)},
		"FAIL patches/h: items[0]: the patch of the template of MachineDeployment spec.template.spec.bootstrap.configRef: it cannot be applied": {hook: "GeneratePatches", answer: ofDeployments("JSONPatch", `[{"op":"add","path":"/spec/template/spec/nope/-","value":"x"}]`)},
		"FAIL patches/h: items[0]: the patch of the template of Cluster spec.controlPlaneRef: it removes spec, which":                           {hook: "GeneratePatches", answer: patch("JSONMergePatch", `{"spec":null}`)},
		"FAIL request ID: the answer has another": {serve: func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get(hook.RequestIDHeader) == "conformance-check" {
				w.Header().Set(hook.RequestIDHeader, "x")
			}
			return false
		}},
		"warn request ID: the answer does not repeat": {serve: func(w http.ResponseWriter, r *http.Request) bool { w.Header().Del(hook.RequestIDHeader); return false }},
		"FAIL bad input: not JSON/h":                  {serve: careless("<html>")},
		"FAIL bad input: empty body/h":                {serve: careless("")},
		"FAIL concurrency/h": {serve: func(w http.ResponseWriter, r *http.Request) bool {
			defer running.Add(-1)
			if running.Add(1) == 1 {
				time.Sleep(50 * time.Millisecond)
				return false
			}
			return reply(w, `{"status":"Failure","message":"busy"}`)
		}},
	} {
		t.Run(want, func(t *testing.T) {
			if text := check(t, e).String(); !strings.Contains(text, want) {
				t.Errorf("the report lacks %q:\n%s", want, text)
			}
		})
	}
}

// What a handler answers to its hook has a meaning for Cluster API, which refuses it or passes over it in part.
func TestCarelessAnswers(t *testing.T) {
	merge := func(field, patch string) string {
		return fmt.Sprintf(`{"status":"Success",%q:{"patchType":"JSONMergePatch","patch":%q}}`, field, base64.StdEncoding.EncodeToString([]byte(patch)))
	}
	variables := func(all string) *extensionOf {
		return &extensionOf{hook: "DiscoverVariables", answer: always(`{"status":"Success","variables":[` + all + `]}`)}
	}
	// The requests lead the control plane and the workers from v1.35.4 to v1.36.3.
	plan := func(controlPlane, workers string) *extensionOf {
		return &extensionOf{hook: "GenerateUpgradePlan", answer: always(fmt.Sprintf(`{"status":"Success","controlPlaneUpgrades":[%s],"workersUpgrades":[%s]}`, controlPlane, workers))}
	}
	var mu sync.Mutex
	var last string // of whatever is asked
	for want, e := range map[string]*extensionOf{
		"FAIL reordering/h: the same templates": {hook: "GeneratePatches", answer: func(request map[string]any, _ int64) string {
			uid := uidOf(request, "MachineDeployment")
			return onePatch(uid, "JSONMergePatch", fmt.Sprintf(`{"metadata":{"annotations":{"template":%q}}}`, uid))
		}},
		"FAIL reordering/h: the same templates in another order and with": {hook: "GeneratePatches", answer: func(request map[string]any, _ int64) string {
			return onePatch(request["items"].([]any)[0].(map[string]any)["uid"], "JSONMergePatch", `{"spec":{"a":1}}`)
		}},
		"FAIL concurrency/h: 10 requests at once": {answer: func(request map[string]any, _ int64) string {
			mu.Lock()
			last = fmt.Sprint(request["cluster"].(map[string]any)["metadata"].(map[string]any)["name"])
			mu.Unlock()
			time.Sleep(20 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			return fmt.Sprintf(`{"status":"Success","message":%q}`, last)
		}},
		`FAIL variables/h: variables[1]: there is a variable a before it`:              variables(`{"name":"a","schema":{"openAPIV3Schema":{"type":"string"}}},{"name":"a","schema":{"openAPIV3Schema":{"type":"string"}}}`),
		`FAIL variables/h: variables[0]: "a.b" cannot be the name`:                     variables(`{"name":"a.b","schema":{"openAPIV3Schema":{"type":"string"}}}`),
		`FAIL variables/h: variables[0]: "builtin" cannot be the name`:                 variables(`{"name":"builtin","schema":{"openAPIV3Schema":{"type":"string"}}}`),
		`FAIL variables/h: variables[0] (a): schema.openAPIV3Schema.type is ""`:        variables(`{"name":"a","schema":{"openAPIV3Schema":{}}}`),
		`FAIL variables/h: variables[0] (a): schema.openAPIV3Schema.items.type is "s"`: variables(`{"name":"a","schema":{"openAPIV3Schema":{"type":"array","items":{"type":"s"}}}}`),
		"ok   variables/h": variables(`{"name":"a","schema":{"openAPIV3Schema":{"type":"object","properties":{"b":{"x-kubernetes-int-or-string":true}}}}}`),
		"warn upgrade plan/h: there are no steps: Cluster API refuses the upgrade from v1.35.4":    plan(``, ``),
		"FAIL upgrade plan/h: controlPlaneUpgrades: the steps end with v1.36.0":                    plan(`{"version":"v1.36.0"}`, ``),
		"FAIL upgrade plan/h: controlPlaneUpgrades: [1] is v1.35.9, which is not above v1.36.0":    plan(`{"version":"v1.36.0"},{"version":"v1.35.9"},{"version":"v1.36.3"}`, ``),
		"FAIL upgrade plan/h: controlPlaneUpgrades: [0] is v1.37.1: from v1.35.4 it skips a minor": plan(`{"version":"v1.37.1"},{"version":"v1.36.3"}`, ``),
		"FAIL upgrade plan/h: controlPlaneUpgrades: [0]: ":                                         plan(`{"version":"latest"}`, ``),
		"FAIL upgrade plan/h: workersUpgrades: [0] is v1.36.1, which the control plane never has":  plan(`{"version":"v1.36.3"}`, `{"version":"v1.36.1"},{"version":"v1.36.3"}`),
		"ok   upgrade plan/h": plan(`{"version":"v1.35.9"},{"version":"v1.36.3"}`, `{"version":"v1.36.3"}`),
		"FAIL updates in place/h: infrastructureMachinePatch: the patch changes status":               {hook: "CanUpdateMachine", answer: always(merge("infrastructureMachinePatch", `{"status":{"a":1}}`))},
		"FAIL updates in place/h: machinePatch: the patch changes metadata/labels":                    {hook: "CanUpdateMachine", answer: always(merge("machinePatch", `{"metadata":{"labels":{"a":"b"}}}`))},
		"FAIL updates in place/h: machineSetPatch: the patch changes spec/replicas":                   {hook: "CanUpdateMachineSet", answer: always(merge("machineSetPatch", `{"spec":{"replicas":1}}`))},
		"FAIL updates in place/h: bootstrapConfigTemplatePatch: the patch changes spec/template/meta": {hook: "CanUpdateMachineSet", answer: always(merge("bootstrapConfigTemplatePatch", `{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`))},
		`FAIL updates in place/h: machinePatch: patchType is "Merge"`:                                 {hook: "CanUpdateMachine", answer: always(`{"status":"Success","machinePatch":{"patchType":"Merge","patch":"e30="}}`)},
		"FAIL updates in place/h: bootstrapConfigPatch: it cannot be applied": {hook: "CanUpdateMachine", answer: always(`{"status":"Success","bootstrapConfigPatch":{"patchType":"JSONPatch","patch":"` +
			base64.StdEncoding.EncodeToString([]byte(`[{"op":"remove","path":"/spec/nope"}]`)) + `"}}`)},
		"warn exercise/h: not exercised: nothing is updated in place": {hook: "CanUpdateMachine"},
		"ok   updates in place/h":                                     {hook: "CanUpdateMachineSet", answer: always(merge("machineSetPatch", `{"spec":{"template":{"spec":{"version":"v1.36.3"}}}}`))},
	} {
		t.Run(want, func(t *testing.T) {
			if text := check(t, e).String(); !strings.Contains(text, want) {
				t.Errorf("the report lacks %q:\n%s", want, text)
			}
		})
	}
}

// A patch that is wrong for one template is found, whichever of those of the requests it is.
func TestPatchesOfEachTemplate(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]bool{}
	collect := &extensionOf{hook: "GeneratePatches", answer: func(request map[string]any, _ int64) string {
		mu.Lock()
		defer mu.Unlock()
		for _, item := range request["items"].([]any) {
			seen[templateOf(item)] = true
		}
		return `{"status":"Success"}`
	}}
	check(t, collect)
	if len(seen) < 11 {
		t.Errorf("the requests have %d templates: %v", len(seen), seen)
	}
	for template := range seen {
		t.Run(template, func(t *testing.T) {
			wrong := &extensionOf{hook: "GeneratePatches", answer: func(request map[string]any, _ int64) string {
				for _, item := range request["items"].([]any) {
					if templateOf(item) == template {
						return onePatch(item.(map[string]any)["uid"], "JSONPatch", `[{"op":"remove","path":"/spec/nope"}]`)
					}
				}
				return `{"status":"Success"}`
			}}
			if text, want := check(t, wrong).String(), "FAIL patches/h: items[0]: the patch of the template of "; !strings.Contains(text, want) {
				t.Errorf("the report lacks %q:\n%s", want, text)
			}
		})
	}
}

// templateOf names a template of a request by its kind and its place in the topology.
func templateOf(item any) string {
	fields := item.(map[string]any)
	holder := fields["holderReference"].(map[string]any)
	return fmt.Sprintf("%v of %v", fields["object"].(map[string]any)["kind"], holder["kind"])
}

func reply(w http.ResponseWriter, answer string) bool {
	_, _ = w.Write([]byte(answer))
	return true
}

// careless takes one body for a request.
func careless(body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		data, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(data))
		return strings.HasSuffix(r.URL.Path, "/h") && string(data) == body && reply(w, `{"status":"Success"}`)
	}
}

func TestOldTLSFails(t *testing.T) {
	server := httptest.NewUnstartedServer(&extensionOf{})
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS10} //nolint:gosec // what is to be found
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	report, err := conformance.Check(t.Context(), conformance.Options{URL: server.URL, CABundle: ca, Catalog: catalog(t)})
	if err != nil {
		t.Fatal(err)
	}
	if text := report.String(); !strings.Contains(text, "FAIL TLS version: it accepts TLS 1.1") {
		t.Error(text)
	}
}
