// Package hostcluster provides what a Cluster on hosts needs before its machines:
// a control-plane endpoint and the list of failure domains.
//
// It may import the API types, internal/host and the utilities of Cluster API, but
// no other controller.
package hostcluster
