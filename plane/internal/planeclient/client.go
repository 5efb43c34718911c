package planeclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/serve"
)

// ErrNotRunning means that no plane serves in the state directory.
var ErrNotRunning = errors.New("the plane is not running; start it with `slipway up`")

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, addonsv1.AddToScheme, infrav1.AddToScheme, runtimev1.AddToScheme, runtimev1alpha1.AddToScheme, lifecyclev1.AddToScheme} {
		utilruntime.Must(add(s))
	}
	return s
}

// New returns a client of the plane with the rights of its administrator;
// ErrNotRunning when no plane serves, or it has not got as far as its kubeconfig.
func New(inst *instance.Instance) (client.WithWatch, error) {
	config, err := Config(inst)
	if err != nil {
		return nil, err
	}
	return For(config)
}

// Config is how New reaches the plane.
func Config(inst *instance.Instance) (*rest.Config, error) {
	if _, running, err := serve.Running(inst.Dir); err != nil || !running {
		return nil, cmp.Or(err, ErrNotRunning)
	}
	config, err := clientcmd.BuildConfigFromFlags("", inst.Kubeconfig())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotRunning
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w: only root may use the plane's kubeconfig; run it with sudo", err)
	}
	return config, err
}

// For returns a client of any management cluster, for the kinds of this package's
// scheme.
func For(config *rest.Config) (client.WithWatch, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	config.WarningHandler = rest.NoWarnings{}
	return client.NewWithWatch(config, client.Options{Scheme: scheme()})
}

// WorkloadNodes lists the Nodes of a workload cluster, whose API server is
// reached inside the plane's network.
func WorkloadNodes(inst *instance.Instance, c client.Reader) func(context.Context, client.ObjectKey) ([]corev1.Node, error) {
	return func(ctx context.Context, cluster client.ObjectKey) ([]corev1.Node, error) {
		config, err := planeWorkload(ctx, inst, c, cluster)
		if err != nil {
			return nil, err
		}
		return Nodes(ctx, config)
	}
}

// Nodes lists the Nodes of a cluster.
func Nodes(ctx context.Context, config *rest.Config) ([]corev1.Node, error) {
	c, err := client.New(config, client.Options{Scheme: scheme()})
	if err != nil {
		return nil, err
	}
	var nodes corev1.NodeList
	err = c.List(ctx, &nodes)
	return nodes.Items, err
}

func planeWorkload(ctx context.Context, inst *instance.Instance, c client.Reader, cluster client.ObjectKey) (*rest.Config, error) {
	config, err := WorkloadConfig(ctx, c, cluster)
	if err != nil {
		return nil, err
	}
	if _, running, err := serve.Running(inst.Dir); err != nil || !running {
		return nil, cmp.Or(err, ErrNotRunning)
	}
	config.Dial = network.Dialer(inst.Name)
	return config, nil
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

func readFileIfExists(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
