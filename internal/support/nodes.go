package support

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// nodesTimeout bounds the time for the Nodes of all workload clusters, which are read at the
// same time: clusters that are down must not use up the time of the bundle.
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
	answers := listNodes(ctx, c.cluster.Nodes(c.clients), clusters.Items)
	for i := range clusters.Items {
		key := client.ObjectKeyFromObject(&clusters.Items[i])
		if err := answers[i].err; err != nil {
			c.lacks("nodes of cluster "+key.String(), err)
			continue
		}
		documents, err := c.documents(answers[i].nodes)
		if err != nil {
			return err
		}
		if err := c.put("clusters/"+key.String()+"/nodes.yaml", documents); err != nil {
			return err
		}
	}
	return nil
}

// documents are Nodes as YAML, without secrets.
func (c *collector) documents(nodes []corev1.Node) (string, error) {
	var documents strings.Builder
	for j := range nodes {
		nodes[j].APIVersion, nodes[j].Kind = "v1", "Node"
		o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&nodes[j])
		if err != nil {
			return "", fmt.Errorf("convert Node %s: %w", nodes[j].Name, err)
		}
		data, err := yaml.Marshal(c.archive.redact.Object(o))
		if err != nil {
			return "", fmt.Errorf("encode Node %s: %w", nodes[j].Name, err)
		}
		documents.WriteString("---\n" + string(data))
	}
	return documents.String(), nil
}

// answer is what one workload cluster answers.
type answer struct {
	nodes []corev1.Node
	err   error
}

// listNodes lists the Nodes of all clusters at the same time, in their order.
func listNodes(ctx context.Context, list func(context.Context, client.ObjectKey) ([]corev1.Node, error), clusters []clusterv1.Cluster) []answer {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	answers := make([]answer, len(clusters))
	var all sync.WaitGroup
	for i := range clusters {
		all.Go(func() { answers[i].nodes, answers[i].err = list(ctx, client.ObjectKeyFromObject(&clusters[i])) })
	}
	all.Wait()
	return answers
}
