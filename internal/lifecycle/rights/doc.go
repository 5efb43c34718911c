// Package rights is about what the engine may do in the namespaces of policies. Its own
// ClusterRole has it read policies, runs and Clusters everywhere. Secrets, ConfigMaps and
// Jobs it touches only where somebody has bound one of the ClusterRoles that this package
// names; it has no right to bind any.
//
//	needs.go   the rights that the steps of a policy take, pure
//	missing.go which of them are missing, and the command that grants them
//	client.go  clients whose refusals say so
//
// It may import the API.
package rights
