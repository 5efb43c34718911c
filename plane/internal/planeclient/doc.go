// Package planeclient is how a command talks to a plane and to the workload
// clusters behind it: clients, kubeconfigs, and the gathered status.
//
// It is imported by the commands, as what management.Plane asks of a plane, and by
// internal/up.
package planeclient
