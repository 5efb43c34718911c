// Package gate evaluates the expression of a step: it lists what the expression
// mentions, and tells a fault of the expression from a failure to evaluate it.
//
// Executors import it; it may import the API, step and expression.
package gate
