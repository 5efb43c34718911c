package hook

import "k8s.io/apimachinery/pkg/runtime"

// ObjectReference names the object that a request is about.
type ObjectReference struct {
	// Kind is the object's kind, for example "Cluster".
	Kind string
	// Namespace and Name are the object's. Namespace is empty if the request does
	// not tell it.
	Namespace, Name string
}

// IsZero tells whether no object is named.
func (o ObjectReference) IsZero() bool { return o == ObjectReference{} }

// ObjectOf returns what request is about by Meta.Object, zero if it is about nothing
// or is no request of the hook.
func (d *Definition) ObjectOf(request runtime.Object) ObjectReference {
	if d.Meta.Object == nil || !d.IsRequest(request) {
		return ObjectReference{}
	}
	return d.Meta.Object(request)
}
