package planeclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// New returns a client of the plane with the rights of its administrator;
// management.ErrNotRunning when no plane serves, or it has not got as far as its kubeconfig.
func New(inst *instance.Instance) (client.WithWatch, error) {
	config, err := Config(inst)
	if err != nil {
		return nil, err
	}
	return management.NewClient(config)
}

// Config is how New reaches the plane.
func Config(inst *instance.Instance) (*rest.Config, error) {
	if holder, _, err := statedir.Running(inst.Dir); err != nil || holder.PID == 0 {
		return nil, cmp.Or(err, management.ErrNotRunning)
	}
	config, err := clientcmd.BuildConfigFromFlags("", inst.Kubeconfig())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, management.ErrNotRunning
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w: only root may use the plane's kubeconfig; run it with sudo", err)
	}
	return config, err
}

// WorkloadNodes lists the Nodes of a workload cluster, whose API server is
// reached inside the plane's network.
func WorkloadNodes(inst *instance.Instance, c client.Reader) func(context.Context, client.ObjectKey) ([]corev1.Node, error) {
	return func(ctx context.Context, cluster client.ObjectKey) ([]corev1.Node, error) {
		config, err := planeWorkload(ctx, inst, c, cluster)
		if err != nil {
			return nil, err
		}
		return management.Nodes(ctx, config)
	}
}

func planeWorkload(ctx context.Context, inst *instance.Instance, c client.Reader, cluster client.ObjectKey) (*rest.Config, error) {
	config, err := management.WorkloadConfig(ctx, c, cluster)
	if err != nil {
		return nil, err
	}
	if holder, _, err := statedir.Running(inst.Dir); err != nil || holder.PID == 0 {
		return nil, cmp.Or(err, management.ErrNotRunning)
	}
	config.Dial = network.Dialer(inst.Name)
	return config, nil
}
