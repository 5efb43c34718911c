// Package management finds the management cluster that a command is about, a plane of
// this machine or any other one by its kubeconfig, and connects to it with the rights
// of the user. What is refused comes back as a right that is missing, with the command
// that gives it.
//
// Find decides without touching the network; nothing is asked of a cluster before
// Client is used.
//
// What a plane of this machine is, the program that contains planes tells by the
// interface Plane; here is nothing of it.
package management
