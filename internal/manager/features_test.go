package manager_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	"github.com/slipway-dev/slipway/internal/manager"
	"github.com/slipway-dev/slipway/internal/program"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// What is of beta quality is on, what is of alpha quality off, and the flag says otherwise;
// the gates of one manager are not those of another.
func TestFeatureGates(t *testing.T) {
	parsed := func(flags ...string) (manager.Options, error) {
		options := manager.DefaultOptions()
		set := pflag.NewFlagSet("test", pflag.ContinueOnError)
		options.BindFlags(set)
		return options, set.Parse(flags)
	}
	if o, err := parsed("--feature-gates=HostExtensionConfig=false,InPlaceUpdates=true"); err != nil ||
		o.FeatureGates.Enabled(manager.HostExtensionConfig) || !o.FeatureGates.Enabled(manager.InPlaceUpdates) {
		t.Errorf("the flag sets %v, %v", o.FeatureGates, err)
	}
	if o, err := parsed(); err != nil || !o.FeatureGates.Enabled(manager.HostExtensionConfig) || o.FeatureGates.Enabled(manager.InPlaceUpdates) {
		t.Errorf("the defaults are %v, %v", o.FeatureGates, err)
	}
	if _, err := parsed("--feature-gates=HostExtensionConfigs=false"); err == nil {
		t.Error("a gate that there is not was taken")
	}
}

// A manager that would answer hooks to anybody does not start.
func TestInPlaceUpdatesAreForCore(t *testing.T) {
	testenv.Skip(t)
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	options := optionsFor(env.Namespace(t))
	if err := options.FeatureGates.Set("InPlaceUpdates=true"); err != nil {
		t.Fatal(err)
	}
	if err := manager.SetupWithManager(t.Context(), mgr, options); !errors.Is(err, program.ErrOpenHooks) {
		t.Errorf("err = %v, want %v", err, program.ErrOpenHooks)
	}
}

// With the gate off nobody is called: a HostExtensionConfig that would hold every machine
// of a namespace back holds none.
func TestHostExtensionConfigsCanBeOff(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	config := &runtimev1alpha1.HostExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	config.Spec.ClientConfig = runtimev1.ClientConfig{URL: "https://127.0.0.1:1", CABundle: hooktest.NewCA(t).PEM}
	config.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
	if err := env.Client.Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	// It is of no namespace: the managers of other tests would tell that nobody answers.
	t.Cleanup(func() {
		if err := env.Client.Delete(context.Background(), config); err != nil {
			t.Error(err)
		}
	})
	testenv.NewCluster(t, env.Client, namespace)
	agent := testenv.NewHost(t, env.Client, namespace, "host-1", time.Now())
	machinePool, _ := testenv.NewMachinePool(t, env.Client, namespace, "workers", 1)
	options := optionsFor(namespace)
	if err := options.FeatureGates.Set("HostExtensionConfig=false"); err != nil {
		t.Fatal(err)
	}
	startManager(t, options)
	play(t, []*testenv.Agent{agent}, []*clusterv1.MachinePool{machinePool})
	poll.Until(t, "the machine has its host", wantPhases(t, namespace, 1, 0))
}
