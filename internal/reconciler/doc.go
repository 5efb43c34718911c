// Package reconciler has what reconcilers of the provider and of the lifecycle engine do the same: Read tells which
// objects are theirs, Cluster finds the Cluster of an object, Requests maps an event to the
// objects of a list, Run plays ordered phases, Replan plans again on live objects before anything is
// done, and Result says what follows from how phases ended. Written knows what this process
// wrote and the cache does not show yet, and Observed how long a value has been the same by the
// clock of this process: times in an object were written by another clock, which may be wrong.
// MissingSecretRights says how to grant the manager its rights on the Secrets of a namespace,
// which a release can leave to an administrator (config/rbac/secrets_binding.yaml).
//
// It is no framework: each Reconcile stays one function that calls these and Cluster API's
// own helpers for finalizers and pauses, in the order that its kind needs.
//
// Controllers import it; it imports nothing of this module.
package reconciler
