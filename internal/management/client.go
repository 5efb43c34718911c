package management

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/status"
)

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, addonsv1.AddToScheme, infrav1.AddToScheme, runtimev1.AddToScheme, runtimev1alpha1.AddToScheme, lifecyclev1.AddToScheme} {
		utilruntime.Must(add(s))
	}
	return s
}

// NewClient returns a client of any management cluster, for the kinds of Kubernetes, of
// Cluster API and of Slipway.
func NewClient(config *rest.Config) (client.WithWatch, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	config.WarningHandler = rest.NoWarnings{}
	return client.NewWithWatch(config, client.Options{Scheme: scheme()})
}

// keptClient is the client of who looks at a cluster again and again: a new one would ask
// first what the API server serves. The zero value is ready for use.
type keptClient struct {
	mu     sync.Mutex
	config *rest.Config
	client client.WithWatch
}

// of returns a client for a config: the one before, unless that has changed.
func (k *keptClient) of(config *rest.Config) (client.WithWatch, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client != nil && same(k.config, config) {
		return k.client, nil
	}
	made, err := NewClient(config)
	if err != nil {
		return nil, err
	}
	k.config, k.client = rest.CopyConfig(config), made
	return made, nil
}

// same reports whether two configs lead to the same client. A function, such as the Proxy that
// proxy-url of a kubeconfig becomes, is never equal to another one: the URL it returns is.
func same(a, b *rest.Config) bool {
	if proxyOf(a) != proxyOf(b) {
		return false
	}
	a, b = rest.CopyConfig(a), rest.CopyConfig(b)
	a.Proxy, b.Proxy = nil, nil
	return reflect.DeepEqual(a, b)
}

// proxyOf is the proxy of a config as text; empty without one.
func proxyOf(config *rest.Config) string {
	if config.Proxy == nil {
		return ""
	}
	to, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return err.Error()
	}
	proxy, err := config.Proxy(&http.Request{URL: to})
	return fmt.Sprint(proxy, err)
}

// WorkloadConfig is how to reach a workload cluster from where its hosts are.
func WorkloadConfig(ctx context.Context, c client.Reader, cluster client.ObjectKey) (*rest.Config, error) {
	data, err := ClusterKubeconfig(ctx, c, cluster)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return nil, err
	}
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

// Nodes lists the Nodes of a cluster. It asks for nothing else first: what a client
// discovers by itself has no context, and outlasts it when the cluster is silent. Nor does
// it leave a connection behind: who looks again and again would hold many.
func Nodes(ctx context.Context, config *rest.Config) ([]corev1.Node, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	defer utilnet.CloseIdleConnectionsFor(httpClient.Transport)
	c, err := typedcorev1.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	nodes, err := c.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return nodes.Items, nil
}

// Nodes lists the Nodes of workload clusters by the kubeconfigs that c may read. They
// are reached in the network of the plane's hosts, or from here.
func (c *Cluster) Nodes(reader client.Reader) status.NodeLister {
	if c.Plane != nil {
		return c.Plane.Nodes(reader)
	}
	return func(ctx context.Context, cluster client.ObjectKey) ([]corev1.Node, error) {
		config, err := WorkloadConfig(ctx, reader, cluster)
		if err != nil {
			return nil, err
		}
		return Nodes(ctx, config)
	}
}

// Status gathers what is in scope. A plane that does not run is a status, not an error;
// any other cluster has to answer.
func (c *Cluster) Status(ctx context.Context, scope status.Scope) (status.Status, error) {
	if c.Plane != nil {
		return c.Plane.Status(ctx, c.connect, scope)
	}
	config, err := c.config()
	if err != nil {
		return status.Status{}, err
	}
	reader, err := c.Client()
	if err != nil {
		return status.Status{}, err
	}
	s, err := status.Collect(ctx, reader, scope, c.Nodes(reader))
	s.Plane = status.Plane{Ready: err == nil, Server: config.Host, Context: c.Context}
	return s, err
}

// Hosts gathers the hosts in scope, for which the right to list them is enough. What
// Status says of a plane that does not run holds here, too.
func (c *Cluster) Hosts(ctx context.Context, scope status.Scope) (status.Status, error) {
	if c.Plane != nil {
		return c.Plane.Hosts(ctx, c.connect, scope)
	}
	reader, err := c.Client()
	if err != nil {
		return status.Status{}, err
	}
	hosts, err := status.Hosts(ctx, reader, scope)
	return status.Status{Plane: status.Plane{Ready: err == nil}, Hosts: hosts}, err
}
