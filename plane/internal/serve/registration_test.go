package serve

import (
	"context"
	"fmt"
	"io/fs"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// env is the API server of the tests that need one without a plane.
var env *testenv.Env

// A CA that is renewed while the plane runs reaches who calls the program, without a
// restart of either.
func TestRenewedCAIsRegistered(t *testing.T) {
	testenv.Skip(t)
	var ca atomic.Value
	ca.Store("-----BEGIN CERTIFICATE-----\none\n")
	manifest, err := fs.ReadFile(config.Lifecycle, "lifecycle/extension/extensionconfig.yaml")
	if err != nil {
		t.Fatal(err)
	}
	registered, err := Register(t.Context(), RegistrationOptions{
		Admin: env.Config, Manifest: manifest, CABundle: func() ([]byte, error) { return []byte(ca.Load().(string)), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	has := func() error {
		config := &runtimev1.ExtensionConfig{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: "slipway-lifecycle"}, config); err != nil {
			return err
		}
		if got := string(config.Spec.ClientConfig.CABundle); got != ca.Load() {
			return fmt.Errorf("the CA is %q, want %q", got, ca.Load())
		}
		return nil
	}
	if err := has(); err != nil {
		t.Fatal(err)
	}
	ticks, ctx := make(chan time.Time), t.Context()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		registered.Follow(ctx, ticks)
	}()
	ca.Store("-----BEGIN CERTIFICATE-----\ntwo\n")
	// The second tick is taken when the first was worked off.
	for range 2 {
		ticks <- time.Now()
	}
	if err := has(); err != nil {
		t.Error(err)
	}
	cancel()
	<-done
}
