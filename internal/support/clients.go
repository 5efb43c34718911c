package support

import (
	"context"
	"fmt"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/management"
)

// clients of the management cluster, with the rights of the user.
type clients struct {
	client.Client
	discovery *discovery.DiscoveryClient
	dynamic   *dynamic.DynamicClient
	core      *typedcorev1.CoreV1Client
}

// connect makes the clients. Without them the stages after it gather what needs none.
func (c *collector) connect(context.Context) error {
	made, err := connect(c.cluster)
	if err != nil {
		c.lacks("management cluster", err)
		return nil
	}
	version, err := made.discovery.ServerVersion()
	if err != nil {
		c.lacks("management cluster", fmt.Errorf("it does not answer: %w", err))
		return nil
	}
	c.Versions["management cluster"] = version.GitVersion
	c.clients = made
	return nil
}

func connect(cluster *management.Cluster) (*clients, error) {
	config, err := cluster.Config()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	config.WarningHandler = rest.NoWarnings{}
	c := &clients{}
	if c.Client, err = cluster.Client(); err != nil {
		return nil, err
	}
	if c.discovery, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return nil, err
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	c.core, err = typedcorev1.NewForConfig(config)
	return c, err
}
