// Package operation is the seam between the agent's loop, which decides, and an
// Executor, which has the effects. The loop drives a real executor on a host
// and a simulated one in scale tests in the same way.
//
// It imports the journal and is imported by every package that takes part in an
// operation.
package operation
