package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/exp/runtime/server"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/conformance"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// message is what every handler answers with: proof that the response is its own.
func message(name string) string { return "answered by " + name }

type handlerOf[Q, R any] func(context.Context, *Q, *R)

// upstreamHandlers are a handler of upstream's server for each hook but Discovery,
// which the server answers by itself.
var upstreamHandlers = []server.ExtensionHandler{
	{Name: "before-cluster-create", Hook: hooksv1.BeforeClusterCreate, HandlerFunc: handlerOf[hooksv1.BeforeClusterCreateRequest, hooksv1.BeforeClusterCreateResponse](func(_ context.Context, q *hooksv1.BeforeClusterCreateRequest, r *hooksv1.BeforeClusterCreateResponse) {
		r.SetRetryAfterSeconds(int32(len(q.Settings)))
		answer(r, "before-cluster-create")
	})},
	simple("after-control-plane-initialized", hooksv1.AfterControlPlaneInitialized),
	simple("before-cluster-upgrade", hooksv1.BeforeClusterUpgrade),
	simple("before-control-plane-upgrade", hooksv1.BeforeControlPlaneUpgrade),
	simple("after-control-plane-upgrade", hooksv1.AfterControlPlaneUpgrade),
	simple("before-workers-upgrade", hooksv1.BeforeWorkersUpgrade),
	simple("after-workers-upgrade", hooksv1.AfterWorkersUpgrade),
	simple("after-cluster-upgrade", hooksv1.AfterClusterUpgrade),
	simple("before-cluster-delete", hooksv1.BeforeClusterDelete),
	{Name: "generate-patches", Hook: hooksv1.GeneratePatches, HandlerFunc: handlerOf[hooksv1.GeneratePatchesRequest, hooksv1.GeneratePatchesResponse](func(_ context.Context, q *hooksv1.GeneratePatchesRequest, r *hooksv1.GeneratePatchesResponse) {
		for _, item := range q.Items {
			r.Items = append(r.Items, hooksv1.GeneratePatchesResponseItem{
				UID: item.UID, PatchType: hooksv1.JSONMergePatchType, Patch: []byte(`{"spec":{"from":"` + item.HolderReference.Name + `"}}`),
			})
		}
		answer(r, "generate-patches")
	})},
	simple("validate-topology", hooksv1.ValidateTopology),
	{Name: "discover-variables", Hook: hooksv1.DiscoverVariables, HandlerFunc: handlerOf[hooksv1.DiscoverVariablesRequest, hooksv1.DiscoverVariablesResponse](func(_ context.Context, _ *hooksv1.DiscoverVariablesRequest, r *hooksv1.DiscoverVariablesResponse) {
		r.Variables = []clusterv1.ClusterClassVariable{{Name: "size", Required: ptr.To(true), Schema: clusterv1.VariableSchema{OpenAPIV3Schema: clusterv1.JSONSchemaProps{Type: "string"}}}}
		answer(r, "discover-variables")
	})},
	simple("generate-upgrade-plan", hooksv1.GenerateUpgradePlan),
	simple("can-update-machine", hooksv1.CanUpdateMachine),
	simple("can-update-machine-set", hooksv1.CanUpdateMachineSet),
	simple("update-machine", hooksv1.UpdateMachine),
}

// simple takes the types of the handler from upstream's function of the hook.
func simple[Q, R any](name string, h func(*Q, *R)) server.ExtensionHandler {
	return server.ExtensionHandler{Name: name, Hook: h, HandlerFunc: handlerOf[Q, R](func(_ context.Context, _ *Q, r *R) {
		answer(any(r).(hooksv1.ResponseObject), name)
	})}
}

func answer(r hooksv1.ResponseObject, name string) {
	r.SetStatus(hooksv1.ResponseStatusSuccess)
	r.SetMessage(message(name))
}

// startUpstream serves upstreamHandlers with upstream's server.
func startUpstream(t *testing.T) *runtimev1.ExtensionConfig {
	t.Helper()
	catalog := runtimecatalog.New()
	if err := hooksv1.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	ca := hooktest.NewCA(t)
	certFile, _ := ca.Files(t.TempDir(), "server")
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed at once: upstream's server takes a port
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().(*net.TCPAddr)
	_ = listener.Close()
	s, err := server.New(server.Options{
		Catalog: catalog, Host: "127.0.0.1", Port: address.Port,
		CertDir: filepath.Dir(certFile), CertName: "server.crt", KeyName: "server.key",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range upstreamHandlers {
		if err := s.AddExtensionHandler(h); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("upstream's server: %v", err)
		}
	})
	poll.Until(t, "upstream's server starts", func() error { return s.StartedChecker()(nil) })
	return hooktest.Config("ext", "https://127.0.0.1:"+strconv.Itoa(address.Port), ca.PEM)
}

func newCatalog(t *testing.T) *hook.Catalog {
	t.Helper()
	c := hook.NewCatalog()
	if err := capi.AddToCatalog(c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestUpstreamServer calls an extension built on upstream's server with our client:
// it is discovered, and each of the 17 hooks gets an answer.
func TestUpstreamServer(t *testing.T) {
	config := startUpstream(t)
	catalog := newCatalog(t)
	config.Spec.Settings = map[string]string{"a": "1", "b": "2"}
	c, discovered, err := hooktest.Discover(t.Context(), catalog, config)
	if err != nil {
		t.Fatal(err)
	}
	if len(discovered.Status.Handlers) != len(upstreamHandlers) {
		t.Fatalf("discovered %d handlers, want %d", len(discovered.Status.Handlers), len(upstreamHandlers))
	}
	if !slices.IsSortedFunc(discovered.Status.Handlers, func(a, b runtimev1.ExtensionHandler) int { return cmp.Compare(a.Name, b.Name) }) {
		t.Error("the handlers are not sorted, although upstream's server names them in random order")
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
	called := 0
	for _, d := range catalog.All() {
		if d.Meta.Singleton {
			continue
		}
		outcome, err := c.InvokeAll(t.Context(), d, cluster, d.NewRequest())
		if err != nil {
			t.Errorf("hook %s: %v", d.Name.Hook, err)
			continue
		}
		for _, answer := range outcome.Answers {
			called++
			if want := message(hook.HandlerName(answer.Name)); answer.Response.GetMessage() != want {
				t.Errorf("hook %s: the message is %q, want %q", d.Name.Hook, answer.Response.GetMessage(), want)
			}
		}
		if d == capi.BeforeClusterCreate.Definition() && outcome.RetryAfter != 2*time.Second {
			t.Errorf("the wish to be called again after as many seconds as there are settings arrived as %s", outcome.RetryAfter)
		}
	}
	if called != len(upstreamHandlers) {
		t.Errorf("%d handlers answered, want %d", called, len(upstreamHandlers))
	}
	checkTopologyHooks(t, c, cluster)
}

// checkTopologyHooks looks into the answers that carry more than a status.
func checkTopologyHooks(t *testing.T, c *client.Client, cluster *clusterv1.Cluster) {
	t.Helper()
	request := &hooksv1.GeneratePatchesRequest{}
	for i := range 3 {
		request.Items = append(request.Items, hooksv1.GeneratePatchesRequestItem{
			UID: "item", HolderReference: hooksv1.HolderReference{Name: fmt.Sprint("holder-", i)},
			Object: runtime.RawExtension{Raw: []byte(`{"kind":"Template"}`)},
		})
	}
	patches, err := client.Call(t.Context(), c, capi.GeneratePatches, "generate-patches.ext", cluster, request)
	if err != nil {
		t.Fatal(err)
	}
	if len(patches.Items) != 3 || string(patches.Items[2].Patch) != `{"spec":{"from":"holder-2"}}` || patches.Items[2].PatchType != hooksv1.JSONMergePatchType {
		t.Errorf("the patches are %+v", patches.Items)
	}
	variables, err := client.Call(t.Context(), c, capi.DiscoverVariables, "discover-variables.ext", cluster, &hooksv1.DiscoverVariablesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(variables.Variables) != 1 || variables.Variables[0].Name != "size" || !*variables.Variables[0].Required || variables.Variables[0].Schema.OpenAPIV3Schema.Type != "string" {
		t.Errorf("the variables are %+v", variables.Variables)
	}
	var rejected *client.RejectedError
	if _, err := client.Call(t.Context(), c, capi.BeforeClusterDelete, "generate-patches.ext", cluster, &hooksv1.BeforeClusterDeleteRequest{}); err == nil || errors.As(err, &rejected) {
		t.Errorf("a handler of another hook was called: %v", err)
	}
}

// TestUpstreamServerConforms runs the checks that anyone can run against an extension.
func TestUpstreamServerConforms(t *testing.T) {
	config := startUpstream(t)
	hooktest.Conformance(t, conformance.Options{
		URL: config.Spec.ClientConfig.URL, CABundle: config.Spec.ClientConfig.CABundle, Catalog: newCatalog(t),
	})
}
