// Package executor is the operation.Executor of a real host: it joins the
// packages that have one effect each, in the order that makes a crash at any
// point recoverable. Only the agent's assembly imports it.
package executor
