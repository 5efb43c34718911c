// Package match says which Clusters a LifecyclePolicy is about: those that its
// clusterSelector selects and for which its matchCondition is true. The handlers of the
// hooks, the controllers, admission and `slipway lifecycle explain` all ask here, so
// that what is explained is what is done.
//
// It is pure but for the cost of an expression, and may import the API and expression.
package match
