// Package workload is the cluster that the host is a node of, as its kubelet may
// see and change it: the host's own Node and the pods on it. It uses the kubelet's
// credential, so that the node authorizer and NodeRestriction of that cluster
// bound what an agent can do there; it needs no right of its own.
//
// It imports client-go's REST client only. The packages of effects import it.
package workload
