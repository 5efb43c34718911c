// Package workload gives access to workload clusters by the kubeconfig that Cluster
// API keeps of each: the Secret <cluster>-kubeconfig, key value.
//
// A client is created at its first use, and again when the Secret has changed,
// so rotated credentials need no restart. Nothing is watched: the engine works on a
// cluster a few times in its life, which is no reason for caches and health probes
// of every cluster, as upstream's clustercache keeps them.
//
// Parse is also for others that read such a Secret.
//
// It may import Cluster API and client-go, nothing of this repository.
package workload
