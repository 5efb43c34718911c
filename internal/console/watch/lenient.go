package watch

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Lenient reads for one page: a list of what is refused is empty, and is told in Refused.
// It is for one goroutine.
type Lenient struct {
	*Reader
	// Refused has the API server's word of each kind that could not be listed.
	Refused []error
}

// List implements client.Reader.
func (l *Lenient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return l.tolerate(l.Reader.List(ctx, list, opts...))
}

// Watch has the kind of an object watched. One that is refused has no objects.
func (l *Lenient) Watch(ctx context.Context, object client.Object) error {
	return l.tolerate(l.Reader.Watch(ctx, object))
}

// Refuse keeps a refusal for the page to tell, once.
func (l *Lenient) Refuse(err error) { _ = l.tolerate(err) }

// tolerate is Refuse of a refusal, and returns any other error.
func (l *Lenient) tolerate(err error) error {
	if err == nil || !refusal(err) {
		return err
	}
	for _, known := range l.Refused {
		if known.Error() == err.Error() {
			return nil
		}
	}
	l.Refused = append(l.Refused, err)
	return nil
}
