// Package rights is about what the engine may do in the namespaces of policies. Its own
// ClusterRole has it read policies, runs and Clusters everywhere. Secrets, ConfigMaps and
// Jobs it touches only where somebody has bound one of the ClusterRoles that this package
// names; it has no right to bind any.
//
//	rights.go  the rights that steps need, which are missing, and the command that grants them;
//	           whether the API server asks the engine about Clusters without a topology
//	client.go  clients whose refusals say so
//
// It may import the API.
package rights
