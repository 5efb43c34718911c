// Package runs is what people see of LifecyclePolicies and their runs, and how they
// decide about them, on the plane or any other management cluster.
//
// It reads the cluster only through a client, and writes nothing but the annotations
// that the engine's webhook turns into decisions.
package runs
