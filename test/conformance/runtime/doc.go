// Package runtime proves that the SDK speaks Cluster API's wire format both ways.
//
// An extension built on the SDK is judged by upstream's core manager, built from the
// module and changed in nothing: it discovers the extension and calls its hooks
// through the life of a Cluster made of a ClusterClass. An extension built on
// upstream's exp/runtime/server is called by our client with all hooks there are. The
// OpenAPI document of the hooks is held against Kubernetes' own validator of schemas, which
// the SDK does not depend on.
package runtime
