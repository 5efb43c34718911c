// Package reset takes Kubernetes off the host and finds out whether anything is
// left. What it removes is a list of rules that can be read in one place; what
// it cannot attribute to Kubernetes it leaves alone and, if it must not be
// there, names. It may be imported by the package effects.
package reset
