// Package effects does to the host what core has decided: its Executor is the
// operation.Executor of a real host. It joins the packages below it, which have one
// effect each, in the order that makes a crash at any point recoverable.
//
// The room may import core/journal, core/operation, hostos, vip and link/backoff. The
// agent's run imports it.
package effects
