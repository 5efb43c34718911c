package support

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// nodesTimeout bounds the look into one workload cluster: one that is down holds up the others.
const nodesTimeout = 10 * time.Second

// nodes gathers the Nodes of the workload clusters that can be reached from here.
func (c *collector) nodes(ctx context.Context) error {
	if c.clients == nil {
		return nil
	}
	clusters := &clusterv1.ClusterList{}
	if err := c.clients.List(ctx, clusters, client.InNamespace(c.Namespace)); err != nil {
		c.lacks("nodes", err)
		return nil
	}
	for i := range clusters.Items {
		key := client.ObjectKeyFromObject(&clusters.Items[i])
		nodes, err := c.nodesOf(ctx, key)
		if err != nil {
			c.lacks("nodes of cluster "+key.String(), err)
			continue
		}
		var documents strings.Builder
		for j := range nodes {
			nodes[j].APIVersion, nodes[j].Kind = "v1", "Node"
			o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&nodes[j])
			if err != nil {
				return fmt.Errorf("convert Node %s: %w", nodes[j].Name, err)
			}
			data, err := yaml.Marshal(c.archive.redact.Object(o))
			if err != nil {
				return fmt.Errorf("encode Node %s: %w", nodes[j].Name, err)
			}
			documents.WriteString("---\n" + string(data))
		}
		if err := c.put("clusters/"+key.String()+"/nodes.yaml", documents.String()); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) nodesOf(ctx context.Context, cluster client.ObjectKey) ([]corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	return c.cluster.Nodes(c.clients)(ctx, cluster)
}
