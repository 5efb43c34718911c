// Package assignment takes a host to another namespace of its management cluster when its
// Host says so (spec.assignedNamespace): the agent asks for certificates there with those of
// here, makes sure that the Host there is its own, and writes down that it lives there.
//
// It may be imported by the agent's run package only.
package assignment
