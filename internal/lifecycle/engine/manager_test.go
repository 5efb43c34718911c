package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/trace"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/engine"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/registry"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	ctrl.SetLogger(klog.Background())
	addToScheme := func(s *runtime.Scheme) error {
		return errors.Join(engine.AddToScheme(s), admissionv1.AddToScheme(s), rbacv1.AddToScheme(s))
	}
	os.Exit(testenv.Main(m, addToScheme, func(e *testenv.Env) error { env = e; return nil }))
}

// replica is one of the engine.
type replica struct {
	*sdkclient.Client
	// webhooks is host:port of its webhooks, ca what signed its certificate.
	webhooks string
	url      string
	ca       []byte
	// callers signs the certificates of who may call.
	callers *hooktest.CA
	// tracer is that of who calls; nil for none.
	tracer trace.TracerProvider
	stop   func()
}

// startEngine runs a replica until the end of the test, or until it is stopped, and
// waits until it answers.
func startEngine(t *testing.T, namespace string) *replica {
	t.Helper()
	return startEngineAs(t, env.Config, namespace, nil)
}

// startEngineAs runs one with the rights of a user, and other options.
func startEngineAs(t *testing.T, config *rest.Config, namespace string, change func(*engine.Options)) *replica {
	t.Helper()
	ca, dir := hooktest.NewCA(t), t.TempDir()
	ca.Files(dir, "tls")
	o := engine.DefaultOptions()
	o.ExtensionAddress, o.CertDir, o.DrainDelay = net.JoinHostPort("127.0.0.1", strconv.Itoa(shared.FreePort(t))), dir, 0
	callers := hooktest.NewCA(t)
	o.ExtensionClientCAFile, o.ExtensionClientNames = filepath.Join(dir, "callers.crt"), []string{"core"}
	if err := os.WriteFile(o.ExtensionClientCAFile, callers.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	o.WebhookHost = "127.0.0.1"
	o.WebhookPort = shared.FreePort(t)
	o.MetricsAddress, o.ProbeAddress, o.SkipNameValidation = "0", "0", true
	o.LeaderElect, o.LeaderElectionNamespace = true, namespace
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = 3*time.Second, 2*time.Second, 200*time.Millisecond

	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := engine.Run(ctx, config, o); err != nil {
			t.Errorf("the engine failed: %v", err)
		}
	}()
	e := &replica{webhooks: net.JoinHostPort(o.WebhookHost, strconv.Itoa(o.WebhookPort)), url: "https://" + o.ExtensionAddress, ca: ca.PEM, callers: callers, stop: func() { cancel(); <-done }}
	t.Cleanup(e.stop)
	poll.Until(t, "the extension answers", func() error {
		c, err := e.discover(t, callers, "core")
		e.Client = c
		return err
	})
	return e
}

// discover calls with a certificate of that name; without one when nobody signs it.
func (e *replica) discover(t *testing.T, signer *hooktest.CA, name string) (*sdkclient.Client, error) {
	t.Helper()
	catalog := hook.NewCatalog()
	if err := capi.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	handlers := registry.New(registry.Options{})
	options := sdkclient.Options{Catalog: catalog, Registry: handlers, Tracer: e.tracer}
	if signer != nil {
		options.CertFile, options.KeyFile = signer.Files(t.TempDir(), name)
	}
	c, err := sdkclient.New(options)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := registry.FromExtensionConfig(hooktest.Config("slipway-lifecycle", e.url, e.ca))
	if err != nil {
		t.Fatal(err)
	}
	if entry.Handlers, err = c.Discover(t.Context(), entry); err != nil {
		return nil, err
	}
	if got := len(entry.Handlers); got != len(lifecyclev1.Hooks()) {
		t.Fatalf("%d handlers", got)
	}
	return c, handlers.WarmUp(entry)
}

// Hooks are for Cluster API: neither who has no certificate, nor who has one of another
// CA or another name, is answered.
func TestHooksAreForCore(t *testing.T) {
	testenv.Skip(t)
	e := startEngine(t, env.Namespace(t))
	for name, caller := range map[string]struct {
		signer *hooktest.CA
		name   string
		reason sdkclient.Reason
		status int
	}{
		"no certificate": {nil, "", sdkclient.ReasonHTTPStatus, http.StatusUnauthorized},
		"another name":   {e.callers, "agent", sdkclient.ReasonHTTPStatus, http.StatusForbidden},
		// With TLS 1.3 the server refuses after the caller has begun to write, which sees
		// the alert or the closed connection first.
		"another CA": {hooktest.NewCA(t), "core", sdkclient.ReasonUnreachable, 0},
	} {
		_, err := e.discover(t, caller.signer, caller.name)
		var refused *sdkclient.CallError
		if !errors.As(err, &refused) || refused.Reason != caller.reason || refused.StatusCode != caller.status {
			t.Errorf("%s: error %v, want one of reason %s, status %d", name, err, caller.reason, caller.status)
		}
	}
	if _, err := e.discover(t, e.callers, "core"); err != nil {
		t.Error(err)
	}
}

// An engine that would answer anybody does not start unless it is told to.
func TestOpenHooksAreRefused(t *testing.T) {
	err := engine.Run(t.Context(), &rest.Config{}, engine.DefaultOptions())
	if err == nil || !strings.Contains(err.Error(), "--extension-client-ca-file") || !strings.Contains(err.Error(), "--insecure-hooks") {
		t.Errorf("got %v", err)
	}
}

func newCluster(t *testing.T, namespace, name string) *clusterv1.Cluster {
	t.Helper()
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       clusterv1.ClusterSpec{Topology: clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "slipway"}, Version: "v1.36.3"}},
	}
	if err := env.Client.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	return cluster
}

// passes is nil when the replica lets the creation of the Cluster pass.
func (e *replica) passes(ctx context.Context, cluster *clusterv1.Cluster) error {
	result, err := sdkclient.CallAll(ctx, e.Client, capi.BeforeClusterCreate, cluster, &hooksv1.BeforeClusterCreateRequest{Cluster: *cluster})
	if err != nil {
		return err
	}
	if result.Response.RetryAfterSeconds > 0 {
		return errors.New(result.Response.Message)
	}
	return nil
}

// Two replicas share nothing but the API server. What one answers the other answers,
// and when the leader stops the other executes.
func TestReplicas(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	replicas := []*replica{startEngine(t, namespace), startEngine(t, namespace)}
	policy := &lifecyclev1.LifecyclePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"},
		Spec: lifecyclev1.LifecyclePolicySpec{Hooks: []lifecyclev1.HookPolicy{{
			Hook: lifecyclev1.BeforeClusterCreate,
			Steps: []lifecyclev1.Step{{Name: "labelled", Expression: &lifecyclev1.ExpressionStep{
				Expression: `"go" in cluster.metadata.?labels.orValue({})`, Message: "the label go",
			}}},
		}}},
	}
	if err := env.Client.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	waits := func(cluster *clusterv1.Cluster) func() error {
		return func() error {
			for i, e := range replicas {
				if err := e.passes(t.Context(), cluster); err == nil {
					return fmt.Errorf("replica %d lets pass", i)
				}
			}
			return phaseIs(t, namespace, cluster, lifecyclev1.RunWaiting)
		}
	}
	label := func(cluster *clusterv1.Cluster) {
		t.Helper()
		before := cluster.DeepCopy()
		cluster.Labels = map[string]string{"go": ""}
		if err := env.Client.Patch(t.Context(), cluster, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	first := newCluster(t, namespace, "first")
	poll.Until(t, "both replicas hold it back", waits(first))
	label(first)
	for _, e := range replicas {
		poll.Until(t, "it passes", func() error { return e.passes(t.Context(), first) })
	}

	// The first to be started leads.
	replicas[0].stop()
	replicas = replicas[1:]
	second := newCluster(t, namespace, "second")
	poll.Until(t, "the other one executes", waits(second))
	label(second)
	poll.Until(t, "it passes", func() error { return replicas[0].passes(t.Context(), second) })
}

func TestNetworksThatAreNone(t *testing.T) {
	for _, c := range []struct {
		networks []string
		want     string
	}{
		{[]string{"10.20.0.0/16", "10.20.0.0"}, `"10.20.0.0" is no network`},
		{[]string{"10.20.0.0/16", "none"}, `"none" is no network`},
		// Nothing is wrong with the options: the API server is missing.
		{[]string{"none"}, "connection refused"},
		{[]string{"10.20.0.0/16", "fd00::/8"}, "connection refused"},
	} {
		o := engine.DefaultOptions()
		o.InsecureHooks, o.WebhookAllowedNetworks = true, c.networks
		o.MetricsAddress, o.ProbeAddress = "0", "0"
		if err := engine.Run(t.Context(), &rest.Config{Host: "https://127.0.0.1:1"}, o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v", c.networks, err)
		}
	}
}

// phaseIs is nil when the only run of a Cluster is in that phase.
func phaseIs(t *testing.T, namespace string, cluster *clusterv1.Cluster, want lifecyclev1.RunPhase) error {
	list := &lifecyclev1.LifecycleRunList{}
	if err := env.Client.List(t.Context(), list, client.InNamespace(namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}); err != nil {
		return err
	}
	if len(list.Items) != 1 || plan.Phase(&list.Items[0]) != want {
		return fmt.Errorf("%d runs of %s: %+v", len(list.Items), cluster.Name, list.Items)
	}
	return nil
}

func TestFlags(t *testing.T) {
	o := engine.DefaultOptions()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.BindFlags(flags)
	if err := flags.Parse([]string{"--extension-address=:1", "--leader-elect", "--lifecyclerun-concurrency=3", "--drain-delay=1s", "--namespace=ns"}); err != nil {
		t.Fatal(err)
	}
	if o.ExtensionAddress != ":1" || !o.LeaderElect || o.RunConcurrency != 3 || o.DrainDelay != time.Second || o.Namespace != "ns" {
		t.Errorf("options = %+v", o)
	}
	if o.WebhookPort != engine.DefaultOptions().WebhookPort {
		t.Errorf("a flag that was not given changed its option: %+v", o)
	}
}
