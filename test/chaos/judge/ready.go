package judge

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// lie is a machine that says more of itself than its Node.
type lie struct {
	what  string
	since time.Time
	told  bool
}

// readyIsTrue: Ready falls with the Node. What cannot be seen counts for nothing, and
// nobody reports on a paused Cluster: the time begins anew after both.
func readyIsTrue(limits Limits) rule {
	lies := map[types.UID]*lie{}
	allowed := map[string]time.Duration{nodeAbsent: limits.NodeAbsent, nodeNotReady: limits.NodeNotReady}
	return func(w *world, c change) []finding {
		if c.Verb == Lost || c.Verb == Found {
			clear(lies)
		}
		if w.lost(Management) {
			return nil
		}
		var findings []finding
		here := map[types.UID]bool{}
		for _, m := range w.hostMachines {
			here[m.UID] = true
			what := untrue(w, m)
			l := lies[m.UID]
			switch {
			case what == "":
				delete(lies, m.UID)
			case l == nil || l.what != what:
				lies[m.UID] = &lie{what: what, since: c.Seen}
			case !l.told && c.Seen.Sub(l.since) > allowed[what]:
				l.told = true
				findings = append(findings, finding{
					fmt.Sprintf("HostMachine %s is Ready and its Node %s for %s", m.Name, what, c.Seen.Sub(l.since).Round(time.Second)), []string{m.Status.HostRef.Name},
				})
			}
		}
		for uid := range lies {
			if !here[uid] {
				delete(lies, uid)
			}
		}
		return findings
	}
}

const (
	nodeAbsent   = "is not there"
	nodeNotReady = "is not ready"
)

// untrue is what is wrong with the Node of a machine that is Ready; empty for all others.
func untrue(w *world, m *infrav1.HostMachine) string {
	name := m.Labels[clusterv1.ClusterNameLabel]
	cluster := w.clusters[name]
	if cluster == nil || !cluster.DeletionTimestamp.IsZero() || ptr.Deref(cluster.Spec.Paused, false) || w.lost(name) || w.nodes[name] == nil {
		return ""
	}
	if !m.DeletionTimestamp.IsZero() || !conditions.IsTrue(m, clusterv1.ReadyCondition) {
		return ""
	}
	node := w.nodes[name][m.Status.HostRef.Name]
	switch {
	case node == nil:
		return nodeAbsent
	case !nodeIsReady(node):
		return nodeNotReady
	}
	return ""
}

func nodeIsReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
