// Package component runs the parts of the plane in order.
//
// A [Component] is one embedded server or set of controllers, a value that each part of the plane returns. A [Group] takes
// stages of components, brings each stage up before the next one, reports what
// it waits for, notices when a running component ends by itself, and stops
// everything in reverse order. Nothing in here knows about Kubernetes, so the
// package may be imported by every other package of the plane and imports none.
package component
