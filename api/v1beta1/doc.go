// Package v1beta1 holds the infrastructure.slipway.dev/v1beta1 API, which follows
// contract version v1beta1 of Cluster API: status.ready instead of
// status.initialization, failure domains as a map, and endpoints that may be empty. It is served beside v1beta2,
// never stored; internal/webhook/conversion converts.
//
// Only what the two contracts say differently is declared here. All else is the
// type of v1beta2 itself: it cannot drift apart, a field added there is served here
// too, and conversion cannot lose it.
//
// It may import only apimachinery, the Cluster API types and v1beta2.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.slipway.dev
package v1beta1
