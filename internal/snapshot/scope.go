package snapshot

import (
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Scope narrows what is read and shown. The zero value is everything.
type Scope struct {
	// Namespace is the only one that is looked at; empty for all.
	Namespace string
	// Selector holds for clusters and hosts that are shown; nil for all.
	Selector labels.Selector
}

// Narrow says whether it leaves anything out.
func (s Scope) Narrow() bool { return s.Namespace != "" || s.Selector != nil && !s.Selector.Empty() }

// Shows says whether an object has the labels that are asked for.
func (s Scope) Shows(object client.Object) bool {
	return s.Selector == nil || s.Selector.Matches(labels.Set(object.GetLabels()))
}
