// Package simagent runs thousands of simulated hosts in one process. Each is the
// real agent (internal/agent: core and link) over an
// executor that touches no machine: a bootstrap takes a while and makes a Node in
// the workload cluster. Agents act under their own names, by impersonation, so
// that every request passes the Role of its host; they share connections, which
// real agents do not.
//
// Tests and benchmarks import it. It imports internal/agent and api.
package simagent
