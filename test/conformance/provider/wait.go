package provider

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// change reads an object, changes it and writes it, anew after a conflict.
func change[T client.Object](t *testing.T, s *Suite, object T, mutate func(T)) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("%T %s is changed", object, object.GetName()), func() error {
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		mutate(object)
		return s.Client.Update(t.Context(), object)
	})
}
