package doctor

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// networkNotReady is the reason by which a kubelet says that its container runtime found no
// network plugin, in the message of its Node's condition Ready.
const networkNotReady = "NetworkPluginNotReady"

// networkPatience is how long a new Node may be without: the pod of its plugin starts there
// first.
const networkPatience = 2 * time.Minute

// maxNamed machines are named in a message; the rest is counted.
const maxNamed = 3

var noNetworkPlugin = Check{
	Name:   "NoNetworkPlugin",
	Means:  "Nodes are not ready because no CNI plugin is installed in the cluster, or it does not run there",
	Remedy: "Install the CNI of your choice into the workload cluster, by a ClusterResourceSet for every one to come. If there is one, look at its pods on these Nodes.",
	find: func(s *Snapshot) []Finding {
		return each(s.Clusters, func(c *clusterv1.Cluster) (Finding, bool) {
			var without []string
			f := atCluster(c, Error).next("slipway kubeconfig %s -n %s", c.Name, c.Namespace)
			for i := range s.Machines {
				m := &s.Machines[i]
				if m.Namespace != c.Namespace || m.Spec.ClusterName != c.Name {
					continue
				}
				ready := condition(m.Status.Conditions, clusterv1.MachineNodeReadyCondition, metav1.ConditionFalse)
				if ready == nil || !strings.Contains(ready.Message, networkNotReady) || s.Now.Sub(ready.LastTransitionTime.Time) < networkPatience {
					continue
				}
				without = append(without, m.Name)
				if f.Since == nil || ready.LastTransitionTime.Time.Before(*f.Since) {
					f = f.of(ready)
				}
			}
			f.Message = fmt.Sprintf("%d of its Nodes have no network plugin (%s): %s", len(without), named(without), f.Message)
			return f, len(without) > 0
		})
	},
}

func named(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}
