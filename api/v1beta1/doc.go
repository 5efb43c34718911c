// Package v1beta1 holds the infrastructure.slipway.dev/v1beta1 API, which follows
// contract version v1beta1 of Cluster API: status.ready instead of
// status.initialization, failure domains as a map, and endpoints that may be empty. It is served beside v1beta2,
// never stored; internal/webhook/conversion converts.
//
// Only what the two contracts say differently is declared here. All other fields have the
// type of v1beta2 itself: a field added there is served here too, and conversion cannot lose
// it. The markers of a kind (rules and columns) are repeated here; a test of
// internal/webhook/conversion compares them.
//
// It may import only apimachinery, the Cluster API types and v1beta2.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.slipway.dev
package v1beta1
