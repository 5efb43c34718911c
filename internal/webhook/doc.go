// Package webhook validates what CEL in the CRDs can't: label selectors, IP
// addresses, and the immutability of templates, which must let the dry runs of
// Cluster API's topology controller pass. It registers the conversion between the
// versions, too, which the package below it does.
//
// It may import the API types and the utilities of Cluster API.
package webhook
