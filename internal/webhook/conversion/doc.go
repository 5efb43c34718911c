// Package conversion converts between v1beta1, which is served, and v1beta2, which
// is stored. Nothing is lost in either direction: what v1beta1 cannot express
// travels in the annotation cluster.x-k8s.io/conversion-data, which is set only on
// objects that have something of the kind.
//
// It may import the API types and the utilities of Cluster API.
package conversion
