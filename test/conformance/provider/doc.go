// Package provider judges this provider by the contracts of Cluster API: every rule
// of the InfraMachinePool contract and of the cluster infrastructure provider
// specification is one entry of Rules, and one subtest of Run. The judges are
// upstream's own managers (test/conformance/judge), the workload cluster is an API
// server, and the hosts are agents whose operations join it as Nodes.
//
// Only tests may import it.
package provider
