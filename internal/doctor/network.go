package doctor

import (
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/text"
)

// maxNamed machines are named in a message; the rest is counted.
const maxNamed = 3

var _ = register(Check{
	Layer:  Machines + 5,
	Name:   "NoNetworkPlugin",
	Means:  "Nodes are not ready because no CNI plugin is installed in the cluster, or it does not run there; a note at first, a warning after a minute, an error after five",
	Remedy: "Install a CNI plugin into the workload cluster; a ClusterResourceSet does it for every new cluster. If there is one, check its pods on these Nodes.",
	find: func(s *Snapshot) []Finding {
		machines, settling := s.MachinesOnHosts(), map[client.ObjectKey]bool{}
		for i := range s.HostMachines {
			if m := machines[client.ObjectKeyFromObject(&s.HostMachines[i])]; m != nil {
				settling[client.ObjectKeyFromObject(m)] = s.settling(&s.HostMachines[i])
			}
		}
		return each(s.Clusters, func(c *clusterv1.Cluster) (Finding, bool) {
			var without []string
			f := atCluster(c, Note).next("kubectl --kubeconfig \"$(slipway kubeconfig %s -n %s)\" get pods -A -o wide", c.Name, c.Namespace)
			for i := range s.Machines {
				m := &s.Machines[i]
				if m.Namespace != c.Namespace || m.Spec.ClusterName != c.Name {
					continue
				}
				trouble := NodeTroubleOf(m)
				if trouble == nil || !trouble.NoNetwork || settling[client.ObjectKeyFromObject(m)] {
					continue
				}
				without = append(without, m.Name)
				if f.Since == nil || trouble.Since.Before(*f.Since) {
					f = f.since(trouble.Since)
					f.Severity, f.Message = s.severitySince(trouble.Since), trouble.Message
				}
			}
			f.Message = fmt.Sprintf("%d of its Nodes have no network plugin (%s): %s", len(without), text.List(without, maxNamed), f.Message)
			return f, len(without) > 0
		})
	},
})
