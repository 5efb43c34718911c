// Package reconciler has what the provider's reconcilers do the same: Read tells which
// objects are theirs, Cluster finds the Cluster of an object, Requests asks for all objects of
// a list, Run plays ordered phases, Replan plans again on live objects before anything is
// done, and Result says what follows from how phases ended. Written knows what this process
// wrote and the cache does not show yet.
//
// It is no framework: each Reconcile stays one function that calls these and Cluster API's
// own helpers for finalizers and pauses, in the order that its kind needs.
//
// Controllers import it; it imports nothing of this module.
package reconciler
