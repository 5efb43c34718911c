package judge

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// deletedNode is one that may have had a machine still.
type deletedNode struct {
	name, cluster, providerID string
	seen                      time.Time
}

// nodesOutlive: who deletes a Node has deleted its HostMachine first. The two are in
// different clusters, so it is judged once the other one must have been seen, too.
func nodesOutlive(limits Limits) rule {
	var deleted []deletedNode
	return func(w *world, c change) []finding {
		if before, after, ok := versions[*corev1.Node](c); ok && after == nil && before.Spec.ProviderID != "" {
			deleted = append(deleted, deletedNode{before.Name, c.Cluster, before.Spec.ProviderID, c.Seen})
		}
		if w.lost(Management) {
			return nil
		}
		var findings []finding
		deleted = slices.DeleteFunc(deleted, func(n deletedNode) bool {
			if c.Seen.Sub(n.seen) < limits.Lag {
				return false
			}
			m := w.machineOf(n.providerID)
			// Times of the API server are whole seconds.
			if m != nil && (m.DeletionTimestamp.IsZero() || m.DeletionTimestamp.After(n.seen.Add(time.Second))) {
				findings = append(findings, finding{
					fmt.Sprintf("Node %s of Cluster %s was deleted at %s while HostMachine %s lives", n.name, n.cluster, n.seen.UTC().Format(time.TimeOnly), m.Name), []string{n.name},
				})
			}
			return true
		})
		return findings
	}
}
