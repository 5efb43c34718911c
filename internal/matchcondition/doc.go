// Package matchcondition compiles the CEL expressions by which an extension
// narrows the objects it is called for.
//
// It is used by the webhooks, which refuse what does not compile, and by the
// controllers, whose registries evaluate it. It may import the SDK.
package matchcondition
