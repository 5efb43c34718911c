package manager_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/manager"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// startManager runs the provider with its caches, as slipway-manager does, until
// the end of the test.
func startManager(t *testing.T, options manager.Options) {
	t.Helper()
	startManagerWith(t, env.Config, options)
}

func startManagerWith(t *testing.T, config *rest.Config, options manager.Options) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	hooks := envtest.WebhookInstallOptions{}
	if err := hooks.PrepWithoutInstalling(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hooks.Cleanup() })
	byObject, err := manager.CacheByObject()
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: env.Scheme,
		// The priority queue of controller-runtime v0.24 can block when it is shut
		// down while a worker waits for it.
		Controller:    controllerconfig.Controller{UsePriorityQueue: ptr.To(false)},
		Cache:         cache.Options{ByObject: byObject, DefaultNamespaces: map[string]cache.Config{options.Namespace: {}}},
		Metrics:       metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: hooks.LocalServingHost, Port: hooks.LocalServingPort, CertDir: hooks.LocalServingCertDir}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := manager.SetupWithManager(ctx, mgr, options); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the manager failed: %v", err)
		}
	})
}

func optionsFor(namespace string) manager.Options {
	options := manager.DefaultOptions()
	options.Namespace, options.SkipNameValidation = namespace, true
	return options
}

// play runs agents and core in the background until the end of the test.
func play(t *testing.T, agents []*testenv.Agent, pools []*clusterv1.MachinePool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, agent := range agents {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for every(ctx, 50*time.Millisecond) {
				agent.Obey(t, time.Now())
			}
		}()
	}
	for _, pool := range pools {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for every(ctx, 100*time.Millisecond) {
				testenv.PlayCore(t, env.Client, pool)
			}
		}()
	}
	t.Cleanup(func() { cancel(); wg.Wait() })
}

func every(ctx context.Context, interval time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(interval):
		return true
	}
}

func hosts(t *testing.T, namespace string) []infrav1.Host {
	t.Helper()
	list := &infrav1.HostList{}
	if err := env.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func count(hosts []infrav1.Host, phase infrav1.HostPhase) int {
	n := 0
	for i := range hosts {
		if hosts[i].Status.Phase == phase {
			n++
		}
	}
	return n
}

// wantPhases fails until exactly so many hosts run and are available.
func wantPhases(t *testing.T, namespace string, running, available int) func() error {
	return func() error {
		all := hosts(t, namespace)
		if r, a := count(all, infrav1.HostPhaseRunning), count(all, infrav1.HostPhaseAvailable); r != running || a != available {
			return fmt.Errorf("%d hosts run and %d are available, want %d and %d", r, a, running, available)
		}
		return nil
	}
}

// The whole life of a pool, with the real manager and its caches.
func TestPoolLifeWithAManager(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	startManager(t, optionsFor(namespace))
	testenv.NewCluster(t, env.Client, namespace)
	agents := make([]*testenv.Agent, 0, 3)
	for i := range 3 {
		agents = append(agents, testenv.NewHost(t, env.Client, namespace, fmt.Sprintf("host-%d", i), time.Now()))
	}
	machinePool, pool := testenv.NewMachinePool(t, env.Client, namespace, "workers", 3)
	play(t, agents, []*clusterv1.MachinePool{machinePool.DeepCopy()})

	start := time.Now()
	poll.Until(t, "scale to 3", wantPhases(t, namespace, 3, 0))
	t.Logf("3 hosts run after %s", time.Since(start).Round(time.Millisecond))
	poll.Until(t, "the pool is ready", poolIs(t, pool, 3))

	scale(t, machinePool, 1)
	poll.Until(t, "scale to 1", wantPhases(t, namespace, 1, 2))
	poll.Until(t, "the pool is ready", poolIs(t, pool, 1))
	poll.Until(t, "an event tells of it", func() error { return hasEvent(t, namespace, "ScaledDown") })

	if err := env.Client.Delete(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "all hosts are back", wantPhases(t, namespace, 0, 3))
	poll.Until(t, "the pool is gone", func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pool), pool); !apierrors.IsNotFound(err) {
			return fmt.Errorf("finalizers %v, err %w", pool.Finalizers, err)
		}
		return nil
	})
}

func poolIs(t *testing.T, pool *infrav1.HostMachinePool, size int) func() error {
	return func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pool), pool); err != nil {
			return err
		}
		if !conditions.IsTrue(pool, clusterv1.ReadyCondition) || len(pool.Spec.ProviderIDList) != size || int(pool.Status.ReadyReplicas) != size {
			return fmt.Errorf("list %v, status %+v", pool.Spec.ProviderIDList, pool.Status)
		}
		return nil
	}
}

func scale(t *testing.T, machinePool *clusterv1.MachinePool, replicas int32) {
	t.Helper()
	before := machinePool.DeepCopy()
	machinePool.Spec.Replicas = ptr.To(replicas)
	if err := env.Client.Patch(t.Context(), machinePool, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func hasEvent(t *testing.T, namespace, reason string) error {
	list := &corev1.EventList{}
	if err := env.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		return err
	}
	for i := range list.Items {
		if list.Items[i].Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("no event %s among %d", reason, len(list.Items))
}

// Two managers without leader election, more machines than hosts: no machine ever
// gets two hosts for good, and no host two machines.
func TestTwoManagersNeverClaimTwice(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	const hostCount, poolCount, size = 8, 4, 3
	testenv.NewCluster(t, env.Client, namespace)
	agents := make([]*testenv.Agent, 0, hostCount)
	for i := range hostCount {
		agents = append(agents, testenv.NewHost(t, env.Client, namespace, fmt.Sprintf("host-%d", i), time.Now()))
	}
	pools := make([]*clusterv1.MachinePool, 0, poolCount)
	for i := range poolCount {
		machinePool, _ := testenv.NewMachinePool(t, env.Client, namespace, fmt.Sprintf("pool-%d", i), size)
		pools = append(pools, machinePool)
	}
	startManager(t, optionsFor(namespace))
	startManager(t, optionsFor(namespace))
	play(t, agents, pools)
	poll.Until(t, "all hosts run", wantPhases(t, namespace, hostCount, 0))

	holders := map[string]string{}
	for _, h := range hosts(t, namespace) {
		if other, ok := holders[h.Spec.Claim.ClaimID]; ok {
			t.Errorf("claim %s holds both %s and %s", h.Spec.Claim.ClaimID, other, h.Name)
		}
		holders[h.Spec.Claim.ClaimID] = h.Name
	}
	machines := &infrav1.HostMachineList{}
	if err := env.Client.List(t.Context(), machines, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range machines.Items {
		m := &machines.Items[i]
		if m.Spec.ProviderID != "" && m.Spec.ProviderID != infrav1.ProviderID(namespace, holders[m.Spec.ClaimID], m.Spec.ClaimID) {
			t.Errorf("%s believes to be on %s, is on %q", m.Name, m.Spec.ProviderID, holders[m.Spec.ClaimID])
		}
	}
}

// The API server itself says what an agent may do: its own host, its own
// heartbeat, and the Secret of its operation.
func TestAgentMayDoNoMore(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	startManager(t, optionsFor(namespace))
	testenv.NewCluster(t, env.Client, namespace)
	own := testenv.NewHost(t, env.Client, namespace, "host-1", time.Now())
	other := testenv.NewHost(t, env.Client, namespace, "host-2", time.Now(), func(h *infrav1.Host) { h.Spec.Unschedulable = ptr.To(true) })
	for _, name := range []string{"bootstrap-m1", "of-others"} {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: testenv.ClusterName}},
			Type:       clusterv1.ClusterSecretType,
		}
		if err := env.Client.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	testenv.NewMachine(t, env.Client, namespace, "m1")
	agent := impersonate(t, infrav1.AgentUser(namespace, "host-1", testenv.HostID(namespace, "host-1")), infrav1.AgentGroup)
	secret := func(name string) func() error {
		return func() error {
			return agent.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Secret{})
		}
	}
	poll.Until(t, "the agent reads the Secret of its operation", secret("bootstrap-m1"))
	// The API server may learn of the one role before it learns of the other.
	poll.Until(t, "the agent reads its host", func() error { return agent.Get(t.Context(), own.Key, &infrav1.Host{}) })

	played := &testenv.Agent{Client: agent, Key: own.Key, Status: own.Status}
	played.Report(t, func(s *infrav1.HostStatus) { s.BootID = "boot-2" })
	for name, c := range map[string]struct {
		do      func() error
		allowed bool
	}{
		"read its host":       {func() error { return agent.Get(t.Context(), own.Key, &infrav1.Host{}) }, true},
		"read another host":   {func() error { return agent.Get(t.Context(), other.Key, &infrav1.Host{}) }, false},
		"list hosts":          {func() error { return agent.List(t.Context(), &infrav1.HostList{}, client.InNamespace(namespace)) }, false},
		"change the spec":     {func() error { return agent.Update(t.Context(), own.Host(t)) }, false},
		"read another Secret": {secret("of-others"), false},
		"list Secrets":        {func() error { return agent.List(t.Context(), &corev1.SecretList{}, client.InNamespace(namespace)) }, false},
		"watch its host by name": {func() error {
			w, err := agent.Watch(t.Context(), &infrav1.HostList{}, client.InNamespace(namespace), client.MatchingFields{"metadata.name": "host-1"})
			if err == nil {
				w.Stop()
			}
			return err
		}, true},
	} {
		err := c.do()
		if c.allowed && err != nil {
			t.Errorf("the agent may not %s: %v", name, err)
		}
		if !c.allowed && !apierrors.IsForbidden(err) {
			t.Errorf("the agent may %s: %v", name, err)
		}
	}

	played.Client = env.Client
	played.Obey(t, time.Now())
	poll.Until(t, "the Secret is out of reach after the bootstrap", func() error {
		if err := secret("bootstrap-m1")(); !apierrors.IsForbidden(err) {
			return fmt.Errorf("err = %w", err)
		}
		return nil
	})
}

func impersonate(t *testing.T, user string, groups ...string) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(env.As(user, groups...), client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFlags(t *testing.T) {
	options := manager.DefaultOptions()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	options.BindFlags(flags)
	if err := flags.Parse([]string{"--namespace=ns", "--watch-filter=blue", "--leader-elect", "--host-concurrency=3"}); err != nil {
		t.Fatal(err)
	}
	if options.Namespace != "ns" || options.WatchFilter != "blue" || !options.LeaderElect || options.HostConcurrency != 3 {
		t.Errorf("options = %+v", options)
	}
	if options.WebhookPort != manager.DefaultOptions().WebhookPort {
		t.Errorf("a flag that was not given changed its option: %+v", options)
	}
}
