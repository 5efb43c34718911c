// Package hook defines runtime hooks as values and keeps them in a Catalog.
//
// A Hook[Q, R] is typed where a caller or the author of an extension meets it:
// a handler with the wrong request or response type does not compile. It is
// erased once, in its Definition, and all other packages of the SDK work on
// Definitions.
//
// A Catalog holds any number of versions of each hook, the conversions between
// them and their lifecycle (introduced, deprecated, removed). Callers work at
// the newest version; requests are converted down to the version an extension
// implements and its responses are converted up.
//
// The package may import the types of Cluster API and apimachinery, and nothing
// of the SDK.
package hook
