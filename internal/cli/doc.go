// Package cli holds the commands of slipway that work on any management cluster, one
// file each. A command reads its flags, calls the package that does the work and prints
// the result; it decides nothing itself.
//
// A program is this tree and what it adds to it: cmd/kubectl-slipway adds nothing, the
// plane's slipway the commands that make and break planes and local hosts.
//
// It is imported by cmd/kubectl-slipway and the plane's internal/cli. It runs on every
// platform that kubectl runs on, so it must not depend on Kubernetes itself or on Linux.
package cli
