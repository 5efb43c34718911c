package lifecycle_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/plane/internal/lifecycle"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, runtimev1.AddToScheme, func(e *testenv.Env) error { env = e; return nil }))
}

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
	registered, err := lifecycle.Register(t.Context(), lifecycle.RegistrationOptions{
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
