package provider

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// eventually waits for what controllers do.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	poll.Until(t, what, check)
}

// reach reads an object until it is as wanted; explain says what is missing, "" for
// nothing.
func reach[T client.Object](t *testing.T, s *Suite, object T, what string, missing func(T) string) T {
	t.Helper()
	eventually(t, what, func() error {
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if problem := missing(object); problem != "" {
			return fmt.Errorf("%s", problem)
		}
		return nil
	})
	return object
}

// gone waits until an object is no more.
func gone(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	eventually(t, fmt.Sprintf("%T %s is gone", object, object.GetName()), func() error {
		err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if err == nil {
			return fmt.Errorf("it is still there, with finalizers %v", object.GetFinalizers())
		}
		return client.IgnoreNotFound(err)
	})
}

// change reads an object, changes it and writes it, anew after a conflict.
func change[T client.Object](t *testing.T, s *Suite, object T, mutate func(T)) {
	t.Helper()
	eventually(t, fmt.Sprintf("%T %s is changed", object, object.GetName()), func() error {
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		mutate(object)
		return s.Client.Update(t.Context(), object)
	})
}
