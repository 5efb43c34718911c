// Package handover takes the agent of a host from one management cluster to another
// (docs/design/move.md). While a cluster serves the host, the agent learns from it who
// signs hand-overs, and prepares the one it announces: it reads and verifies it, makes
// sure that the other cluster can be reached, keeps it on disk, and says so. It leaves
// only when the cluster does not serve the host any more, for another that shows the
// very same host. It may import the agent's packages enroll and kube, and internal/host.
package handover
