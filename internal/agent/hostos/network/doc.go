// Package network finds and removes what Kubernetes adds to the network of a
// host: interfaces, routes and nftables tables that were not there before the
// bootstrap. It never touches what the baseline had, nor what no rule claims.
// It may be imported by the packages of the agent.
package network
