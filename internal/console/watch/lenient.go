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
	err := l.Reader.List(ctx, list, opts...)
	if err == nil || !refusal(err) {
		return err
	}
	l.refuse(err)
	return nil
}

func (l *Lenient) refuse(err error) {
	for _, known := range l.Refused {
		if known.Error() == err.Error() {
			return
		}
	}
	l.Refused = append(l.Refused, err)
}
