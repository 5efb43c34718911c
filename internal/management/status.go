package management

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/status"
)

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
