// Package inplace makes one extension of several that update machines in place, each of
// which changes something else of them: the settings of the operating system, say, and the
// version of Kubernetes.
//
// Cluster API asks one extension of a namespace whether it can update a machine, and refuses
// a second one, since it is open what an update by several means
// (https://github.com/kubernetes-sigs/cluster-api/issues/13285). Here it means: one after the
// other, in the order of the chain. Each sees the machine as those before it will leave it,
// only what all of them together can change is promised, and whatever one of them says no to,
// fails at or cannot be understood in holds the machine back.
//
// It may import packages extension and hooks/capi.
package inplace
