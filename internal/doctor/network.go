package doctor

import (
	"fmt"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/internal/text"
)

// networkPatience is how long a new Node may be without: the pod of its plugin starts there
// first.
const networkPatience = 2 * time.Minute

// maxNamed machines are named in a message; the rest is counted.
const maxNamed = 3

var _ = register(Check{
	Layer:  Machines + 5,
	Name:   "NoNetworkPlugin",
	Means:  "Nodes are not ready because no CNI plugin is installed in the cluster, or it does not run there",
	Remedy: "Install a CNI plugin into the workload cluster; a ClusterResourceSet does it for every new cluster. If there is one, check its pods on these Nodes.",
	find: func(s *Snapshot) []Finding {
		return each(s.Clusters, func(c *clusterv1.Cluster) (Finding, bool) {
			var without []string
			f := atCluster(c, Error).next("slipway kubeconfig %s -n %s", c.Name, c.Namespace)
			for i := range s.Machines {
				m := &s.Machines[i]
				if m.Namespace != c.Namespace || m.Spec.ClusterName != c.Name {
					continue
				}
				trouble := NodeTroubleOf(m)
				if trouble == nil || !trouble.NoNetwork || s.Now.Sub(trouble.Since) < networkPatience {
					continue
				}
				without = append(without, m.Name)
				if f.Since == nil || trouble.Since.Before(*f.Since) {
					f = f.since(trouble.Since)
					f.Message = trouble.Message
				}
			}
			f.Message = fmt.Sprintf("%d of its Nodes have no network plugin (%s): %s", len(without), text.List(without, maxNamed), f.Message)
			return f, len(without) > 0
		})
	},
})
