package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/test/live"
)

// gate is an extension that runs beside the plane, on the machine's loopback. It
// holds back the creation of Clusters until it is opened.
type gate struct {
	mu     sync.Mutex
	open   bool
	called []string
}

func (g *gate) note(hook, cluster string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.called = append(g.called, hook+" "+cluster)
	return g.open
}

// order returns the hooks that were called for a cluster, each once.
func (g *gate) order(cluster string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var hooks []string
	for _, call := range g.called {
		hook, name, _ := strings.Cut(call, " ")
		if name == cluster && (len(hooks) == 0 || hooks[len(hooks)-1] != hook) {
			hooks = append(hooks, hook)
		}
	}
	return hooks
}

func (g *gate) register(s *extension.Server) error {
	return errors.Join(
		extension.Handle(s, capi.BeforeClusterCreate, "create", func(_ context.Context, r *hooksv1.BeforeClusterCreateRequest) (*hooksv1.BeforeClusterCreateResponse, error) {
			if !g.note("BeforeClusterCreate", r.Cluster.Name) {
				return nil, extension.RetryAfter(time.Second, "the gate is closed")
			}
			return nil, nil
		}),
		extension.Handle(s, capi.BeforeClusterDelete, "delete", func(_ context.Context, r *hooksv1.BeforeClusterDeleteRequest) (*hooksv1.BeforeClusterDeleteResponse, error) {
			g.note("BeforeClusterDelete", r.Cluster.Name)
			return nil, nil
		}),
	)
}

func extensionConfig(name, url string, ca []byte, selector string) string {
	return fmt.Sprintf(`
apiVersion: runtime.cluster.x-k8s.io/v1beta2
kind: ExtensionConfig
metadata:
  name: %s
  annotations: {runtime.slipway.dev/object-selector: %q}
spec:
  clientConfig: {url: %q, caBundle: %s}
`, name, selector, url, base64.StdEncoding.EncodeToString(ca))
}

func gatedCluster(name string) string {
	return fmt.Sprintf(`
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: %s, namespace: default, labels: {gate: %s}}
spec:
  topology:
    classRef: {name: slipway-local}
    version: `+current+`
    controlPlane: {replicas: 1}
    variables: [{name: controlPlaneEndpointHost, value: 10.88.0.201}]
`, name, name)
}

// TestExtension holds that upstream's topology controller calls an extension on the
// machine's loopback through the SDK: it holds back one Cluster until it lets it go,
// and one that is dead holds back what it selects, nothing else. No host boots.
func TestExtension(t *testing.T) {
	level.Deep(t)
	p := newPlane(t, 1)
	g := &gate{}
	answers := hooktest.Start(t, extension.Options{}, g.register)
	dead := hooktest.Start(t, extension.Options{}, g.register)
	if err := dead.Stop(); err != nil {
		t.Fatal(err)
	}
	console := upWithConsole(t, p, "--fast", "--no-cluster", "--hosts", "0")
	if hosts := p.mustKubectl("", "get", "hosts", "-o", "name"); hosts != "" {
		t.Errorf("hosts that nobody asked for: %s", hosts)
	}
	p.apply("", localClass(t)+"---"+extensionConfig("live", answers.URL, answers.CA.PEM, "gate in (held,free)")+"---"+extensionConfig("dead", dead.URL, dead.CA.PEM, "gate=doomed"))
	for name, want := range map[string]string{"live": "Discovered=true", "dead": "Discovered=false"} {
		p.mustKubectl("", "wait", "--for=condition="+want, "extensionconfig/"+name, live.Waits())
	}

	p.apply("", gatedCluster("held")+"---"+gatedCluster("doomed")+"---"+gatedCluster("other"))
	p.mustKubectl("", "wait", "--for=jsonpath={.spec.infrastructureRef.kind}=HostCluster", "cluster/other", live.Waits())
	if page := console.get(t, "/clusters"); !strings.Contains(page, `href="/clusters/default/other"`) {
		t.Errorf("the console of `up --ui` does not show the cluster:\n%s", page)
	}
	console.leave(t)
	blocked := func(cluster, text string) {
		t.Helper()
		poll.Until(t, fmt.Sprintf("cluster %s says %q", cluster, text), func() error {
			message := p.mustKubectl("", "get", "cluster", cluster, "-o", `jsonpath={.status.conditions[?(@.type=="TopologyReconciled")].message}`)
			if !strings.Contains(message, text) {
				return fmt.Errorf("it says %q", message)
			}
			return nil
		})
		if got := p.mustKubectl("", "get", "cluster", cluster, "-o", "jsonpath={.spec.infrastructureRef.kind}"); got != "" {
			t.Errorf("cluster %s was created: %s", cluster, got)
		}
	}
	blocked("held", "the gate is closed")
	blocked("doomed", "ExtensionConfig dead")

	g.mu.Lock()
	g.open = true
	g.mu.Unlock()
	p.mustKubectl("", "wait", "--for=jsonpath={.spec.infrastructureRef.kind}=HostCluster", "cluster/held", live.Waits())
	p.mustKubectl("", "delete", "cluster", "held", live.Waits())
	if got := strings.Join(g.order("held"), " "); got != "BeforeClusterCreate BeforeClusterDelete" {
		t.Errorf("hooks called for the cluster: %s", got)
	}
	if got := g.order("other"); len(got) != 0 {
		t.Errorf("hooks called for a cluster that the extension does not select: %v", got)
	}
	// Gone with its registration: what it blocked goes on.
	p.mustKubectl("", "delete", "extensionconfig", "dead")
	p.mustKubectl("", "wait", "--for=jsonpath={.spec.infrastructureRef.kind}=HostCluster", "cluster/doomed", live.Waits())
}

// localClass is the ClusterClass that `slipway up` brings with its first cluster.
func localClass(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "templates", "local", "clusterclass.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
