package manager_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	hostcontroller "github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/hosthooks"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/tracing/otlp"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
	hostv1 "github.com/slipway-dev/slipway/sdk/hooks/host/v1beta1"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/test/simagent"
)

func await(t *testing.T, c *testenv.Collector, root, want string) {
	t.Helper()
	want = strings.TrimLeft(strings.ReplaceAll(want, "\t", ""), "\n")
	poll.Until(t, "the trace "+root, func() error {
		got, err := c.TreeOnce(root)
		if err == nil && got != want {
			err = fmt.Errorf("the trace is\n%swant\n%s", got, want)
		}
		return err
	})
}

// gate is an extension with traces of its own that is called about one namespace.
func gate(t *testing.T, namespace string) {
	t.Helper()
	catalog, err := hosthooks.Catalog()
	if err != nil {
		t.Fatal(err)
	}
	provider, err := otlp.FromEnvironment(t.Context(), "gate", "v1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = provider.Shutdown(context.WithoutCancel(t.Context())) })
	ext := hooktest.Start(t, extension.Options{Catalog: catalog, Tracer: provider}, func(s *extension.Server) error {
		return errors.Join(
			extension.Handle(s, host.BeforeHostClaim, "claim", func(context.Context, *hostv1.BeforeHostClaimRequest) (*hostv1.BeforeHostClaimResponse, error) {
				return nil, nil
			}),
			extension.Handle(s, host.AfterHostRelease, "release", func(context.Context, *hostv1.AfterHostReleaseRequest) (*hostv1.AfterHostReleaseResponse, error) {
				return nil, nil
			}),
		)
	})
	config := &runtimev1alpha1.HostExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	config.Spec.ClientConfig = runtimev1.ClientConfig{URL: ext.URL, CABundle: ext.CA.PEM}
	config.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
	if err := env.Client.Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Client.Delete(context.WithoutCancel(t.Context()), config) })
	poll.Until(t, "the extension is discovered", func() error {
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(config), config)
		if err == nil && len(config.Status.Handlers) != 2 {
			err = fmt.Errorf("status %+v", config.Status)
		}
		return err
	})
}

// nowhere has no Nodes: core is played.
type nowhere struct{}

func (nowhere) Join(context.Context, simagent.Node) error { return nil }

// agentOf runs the agent of an enrolled host, whose effects are simulated.
func agentOf(t *testing.T, namespace, name string) {
	t.Helper()
	if err := env.Client.Create(t.Context(), simagent.Enrolled(namespace, name)); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the agent has its rights", func() error {
		return env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: hostcontroller.RoleName(name)}, &rbacv1.RoleBinding{})
	})
	fleet, err := simagent.New(simagent.Options{Config: env.Config, Namespace: namespace, Nodes: nowhere{}, Version: testenv.Version})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := fleet.Start(ctx, name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); fleet.Wait() })
}

// Everything between the claim of a HostMachine and its Node is one trace, by whichever
// process it was done: the manager, the agent on the host, an extension. So is a reset.
func TestTraceOfAMachine(t *testing.T) {
	testenv.Skip(t)
	c, namespace := testenv.StartCollector(t), env.Namespace(t)
	startManager(t, optionsFor(namespace))
	gate(t, namespace)
	testenv.NewCluster(t, env.Client, namespace)
	agentOf(t, namespace, "host-1")
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bootstrap-m1", Labels: map[string]string{clusterv1.ClusterNameLabel: testenv.ClusterName}},
		Type:       clusterv1.ClusterSecretType, Data: map[string][]byte{"value": []byte(testenv.BootstrapData)},
	}
	if err := env.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	m := testenv.NewMachine(t, env.Client, namespace, "m1")
	poll.Until(t, "the machine is provisioned", func() error {
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m)
		if err == nil && !ptr.Deref(m.Status.Initialization.Provisioned, false) {
			err = fmt.Errorf("status %+v", m.Status)
		}
		return err
	})
	machine := &clusterv1.Machine{}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(m), machine); err != nil {
		t.Fatal(err)
	}
	before := machine.DeepCopy()
	conditions.Set(machine, metav1.Condition{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineNodeReadyReason})
	if err := env.Client.Status().Patch(t.Context(), machine, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	await(t, c, "provision a machine", `
		provision a machine (slipway-manager)
		  claim a host (slipway-manager)
		  call BeforeHostClaim (slipway-manager)
		    serve BeforeHostClaim (gate)
		  operation Bootstrapped (slipway-manager)
		    bootstrap data (slipway-manager)
		    Kubernetes version (slipway-manager)
		    baseline (slipway-manager)
		    virtual IP (slipway-manager)
		    kubelet arguments (slipway-manager)
		    write_files (slipway-manager)
		    hostname (slipway-manager)
		    runcmd 1 of 1 (slipway-manager)
		  wait for the Node (slipway-manager)
	`)
	attributes(t, c, "runcmd 1 of 1", map[string]string{
		"k8s.namespace.name": namespace, "slipway.cluster": testenv.ClusterName, "slipway.host": "host-1", "slipway.claim": m.Spec.ClaimID,
		"slipway.operation": "bootstrap-" + m.Spec.ClaimID, "slipway.phase": "Bootstrapped",
	})

	if err := env.Client.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	await(t, c, "operation Reset", `
		operation Reset (slipway-manager)
		  call AfterHostRelease (slipway-manager)
		    serve AfterHostRelease (gate)
	`)
}

func attributes(t *testing.T, c *testenv.Collector, name string, want map[string]string) {
	t.Helper()
	for _, s := range c.Named(name) {
		if got := s.Attributes(); !maps.Equal(got, want) {
			t.Errorf("span %s of trace %s has %v, want %v", name, hex.EncodeToString(s.GetTraceId()), got, want)
		}
		if s.GetEndTimeUnixNano() <= s.GetStartTimeUnixNano() {
			t.Errorf("span %s took no time: %d to %d", name, s.GetStartTimeUnixNano(), s.GetEndTimeUnixNano())
		}
	}
}
