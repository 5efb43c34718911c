package testenv

import (
	"errors"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// Object reads an object until nothing is missing of it, and returns it. missing says what is;
// "" is nothing.
func Object[T client.Object](t testing.TB, c client.Reader, object T, what string, missing func(T) string) T {
	t.Helper()
	poll.Until(t, what, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if problem := missing(object); problem != "" {
			return errors.New(problem)
		}
		return nil
	})
	return object
}

// Gone waits until an object is no more.
func Gone(t testing.TB, c client.Reader, object client.Object) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("%T %s is gone", object, object.GetName()), func() error {
		err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if err == nil {
			return fmt.Errorf("it is still there, with finalizers %v", object.GetFinalizers())
		}
		return client.IgnoreNotFound(err)
	})
}
