// Package clusters makes and changes Clusters that have a topology, as objects.
//
//	New     the Cluster and what goes with it, of a ClusterClass
//	Change  another size or version of one that exists
//	Look    how far what a Cluster asks for has come
//
// All of it is pure: no function here talks to a management cluster. It is imported by
// internal/cli and by the plane.
package clusters
