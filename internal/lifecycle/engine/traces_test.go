package engine_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/engine"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/tracing/otlp"
)

const (
	secretPath = "hush-4711-path"
	secretKey  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// tracedWebhook answers a webhook step whose first call it refuses. It tells what it was sent.
func tracedWebhook(t *testing.T) (step lifecyclev1.WebhookStep, calls *atomic.Int32) {
	t.Helper()
	calls = &atomic.Int32{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Traceparent", "Tracestate", "Baggage"} {
			if value := r.Header.Get(name); value != "" {
				t.Errorf("an endpoint that a policy names is sent %s: %s", name, value)
			}
		}
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	return lifecyclev1.WebhookStep{
		URL: server.URL + "/" + secretPath, SecretName: "endpoint",
		CABundle: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
	}, calls
}

// tracedPolicy has a step that fails once, one that waits and one that passes.
func tracedPolicy(t *testing.T, namespace string, webhook *lifecyclev1.WebhookStep) {
	t.Helper()
	for _, object := range []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "endpoint"}, StringData: map[string]string{"key": secretKey}},
		&lifecyclev1.LifecyclePolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "new-clusters"},
			Spec: lifecyclev1.LifecyclePolicySpec{Hooks: []lifecyclev1.HookPolicy{{
				Hook: lifecyclev1.BeforeClusterCreate,
				Steps: []lifecyclev1.Step{
					{Name: "ticket", Webhook: webhook, Retry: &lifecyclev1.RetryPolicy{BackoffSeconds: ptr.To[int32](1)}},
					{Name: "go", Approval: &lifecyclev1.ApprovalStep{Message: "a new cluster"}},
					{Name: "quota", Expression: &lifecyclev1.ExpressionStep{Expression: "clusters.size() <= 3", Message: "three are enough"}},
				},
			}}},
		},
	} {
		if err := env.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// tracedEngine is called by a core with traces of its own.
func tracedEngine(t *testing.T, namespace string, core trace.TracerProvider) *replica {
	t.Helper()
	e := startEngineAs(t, env.Config, namespace, func(o *engine.Options) { o.WebhookAllowedNetworks = []string{"127.0.0.0/8"} })
	e.tracer = core
	var err error
	if e.Client, err = e.discover(t, e.callers, "core"); err != nil {
		t.Fatal(err)
	}
	return e
}

// calls the hook within a span of core.
func (e *replica) calls(t *testing.T, name string, cluster *clusterv1.Cluster) error {
	t.Helper()
	ctx, span := e.tracer.Tracer("core").Start(t.Context(), name)
	defer span.End()
	return e.passes(ctx, cluster)
}

// A call of a hook is a part of the caller's trace and leads to that of the run, which is
// one over a restart of the engine and tells no secret.
func TestTraceOfARun(t *testing.T) {
	testenv.Skip(t)
	c, namespace := testenv.StartCollector(t), env.Namespace(t)
	core, err := otlp.FromEnvironment(t.Context(), "core", "v1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = core.Shutdown(context.WithoutCancel(t.Context())) })
	webhook, calls := tracedWebhook(t)
	tracedPolicy(t, namespace, &webhook)
	first := tracedEngine(t, namespace, core)
	cluster := newCluster(t, namespace, "edge")
	if err := first.calls(t, "reconcile 1", cluster); err == nil {
		t.Fatal("it passes at once")
	}
	poll.Until(t, "it waits for the approval", func() error { return stepIs(t, namespace, "go") })
	first.stop()

	restarted := time.Now()
	second := tracedEngine(t, namespace, core)
	run := onlyRun(t, namespace)
	run.Spec.Decisions = append(run.Spec.Decisions, lifecyclev1.Decision{Type: lifecyclev1.DecisionApprove, Step: "go", By: "alice", Time: metav1.Now()})
	if err := env.Client.Update(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "it passes", func() error { return second.calls(t, "reconcile 2", cluster) })
	second.stop()

	awaitTree(t, c, "reconcile 1", `
		reconcile 1 (core)
		  call BeforeClusterCreate (core)
		    serve BeforeClusterCreate (slipway-lifecycle)
	`)
	awaitTree(t, c, "run BeforeClusterCreate", `
		run BeforeClusterCreate (slipway-lifecycle)
		  ticket (slipway-lifecycle)
		    attempt (slipway-lifecycle)
		  go (slipway-lifecycle)
		  quota (slipway-lifecycle)
	`)
	judgeCall(t, c, namespace, run.Name)
	judgeSteps(t, c, namespace, run.Name, restarted)
	if calls.Load() != 2 {
		t.Errorf("the endpoint was called %d times", calls.Load())
	}
	for _, s := range c.Spans() {
		for _, secret := range []string{secretPath, secretKey, strings.TrimPrefix(secretKey, "whsec_")} {
			if strings.Contains(s.String(), secret) {
				t.Errorf("a span tells a secret: %s", s.Span)
			}
		}
	}
}

// judgeCall looks at the span of the first call.
func judgeCall(t *testing.T, c *testenv.Collector, namespace, run string) {
	t.Helper()
	calls := c.Named("serve BeforeClusterCreate")
	held, passed := calls[0], calls[len(calls)-1]
	want := map[string]string{
		"k8s.namespace.name": namespace, "slipway.cluster": "edge", "slipway.hook": "BeforeClusterCreate", "slipway.lifecyclepolicy": "new-clusters",
		"slipway.answer": "Held", "runtime.retry_after_seconds": "5", "runtime.status": "Success", "http.response.status_code": "200",
		"runtime.hook": "hooks.runtime.cluster.x-k8s.io/v1alpha1, Hook=BeforeClusterCreate", "runtime.handler": "before-cluster-create",
	}
	if got := held.Attributes(); !maps.Equal(got, want) {
		t.Errorf("a call that holds back has\n%v want\n%v", got, want)
	}
	want["slipway.answer"], want["runtime.retry_after_seconds"] = "Passed", "0"
	if got := passed.Attributes(); !maps.Equal(got, want) {
		t.Errorf("a call that lets pass has\n%v want\n%v", got, want)
	}
	root := c.Named("run BeforeClusterCreate")[0]
	for _, call := range calls {
		links := call.GetLinks()
		if len(links) != 1 || string(links[0].GetTraceId()) != string(root.GetTraceId()) || string(links[0].GetSpanId()) != string(root.GetSpanId()) {
			t.Errorf("a call leads to %v, not to the run %s", links, run)
		}
	}
}

// judgeSteps looks at the spans of the run.
func judgeSteps(t *testing.T, c *testenv.Collector, namespace, run string, restarted time.Time) {
	t.Helper()
	for name, about := range map[string][3]string{
		"ticket": {"webhook", "Succeeded"}, "go": {"approval", "Succeeded"}, "quota": {"expression", "Succeeded"},
		"attempt": {"webhook", "", "answered 500"},
	} {
		want := map[string]string{
			"k8s.namespace.name": namespace, "slipway.cluster": "edge", "slipway.hook": "BeforeClusterCreate", "slipway.lifecyclepolicy": "new-clusters",
			"slipway.lifecyclerun": run, "slipway.step": name, "slipway.kind": about[0], "slipway.outcome": about[1],
		}
		if name == "attempt" {
			want["slipway.step"] = "ticket"
			delete(want, "slipway.outcome")
		}
		spans := c.Named(name)
		if len(spans) != 1 || !maps.Equal(spans[0].Attributes(), want) || !strings.Contains(spans[0].GetStatus().GetMessage(), about[2]) {
			t.Errorf("the spans %s are %v, want one with %v", name, spans, want)
		}
	}
	if approved := c.Named("go")[0]; !time.Unix(0, int64(approved.GetStartTimeUnixNano())).Before(restarted) ||
		!time.Unix(0, int64(approved.GetEndTimeUnixNano())).After(restarted) {
		t.Errorf("the step that waited over the restart at %s is %v", restarted, approved)
	}
}

func awaitTree(t *testing.T, c *testenv.Collector, root, want string) {
	t.Helper()
	want = strings.TrimLeft(strings.ReplaceAll(want, "\t", ""), "\n")
	poll.Until(t, "the trace "+root, func() error {
		got, err := c.Tree(root)
		if err == nil && got != want {
			err = fmt.Errorf("the trace is\n%swant\n%s", got, want)
		}
		return err
	})
}

func onlyRun(t *testing.T, namespace string) *lifecyclev1.LifecycleRun {
	t.Helper()
	list := &lifecyclev1.LifecycleRunList{}
	if err := env.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("%d runs", len(list.Items))
	}
	return &list.Items[0]
}

// stepIs is nil when the only run is at that step.
func stepIs(t *testing.T, namespace, name string) error {
	t.Helper()
	if run := onlyRun(t, namespace); run.Status.Step != name || run.Progress(name) == nil {
		return fmt.Errorf("the run is at %q: %s", run.Status.Step, run.Status.Message)
	}
	return nil
}
