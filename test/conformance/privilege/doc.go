// Package privilege holds the lifecycle engine to least privilege, by the audit log of
// an API server: the released program, under its ServiceAccount with the rights of its
// manifests, takes a Cluster through policies with every kind of step and the ways
// around them. Nothing may be forbidden to it, and nothing granted that it did not use, nor
// in a namespace where it did not use it.
//
// Only tests are in it.
package privilege
