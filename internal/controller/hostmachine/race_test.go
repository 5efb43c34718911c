package hostmachine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/controller/hostmachine"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/level"
)

// staleFor is how many lists of hosts a lagging cache answers with one snapshot.
const staleFor = 25

// lagging is a client like that of a busy manager: its cache shows hosts as they
// were a while ago, and one write in eight loses a race it did not see.
func lagging(inner client.WithWatch, random *rand.Rand) client.WithWatch {
	var mu sync.Mutex
	var snapshot *infrav1.HostList
	age := 0
	conflict := func(o client.Object) error {
		mu.Lock()
		defer mu.Unlock()
		if random.IntN(8) > 0 {
			return nil
		}
		return apierrors.NewConflict(schema.GroupResource{Resource: fmt.Sprintf("%T", o)}, o.GetName(), fmt.Errorf("made up by the test"))
	}
	return interceptor.NewClient(inner, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			hosts, ok := list.(*infrav1.HostList)
			if options := (&client.ListOptions{}).ApplyOptions(opts); !ok || options.FieldSelector != nil {
				return c.List(ctx, list, opts...)
			}
			mu.Lock()
			defer mu.Unlock()
			if age--; age < 0 {
				snapshot, age = &infrav1.HostList{}, staleFor
				if err := c.List(ctx, snapshot, opts...); err != nil {
					return err
				}
			}
			snapshot.DeepCopyInto(hosts)
			return nil
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			if err := conflict(obj); err != nil {
				return err
			}
			return c.Update(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := conflict(obj); err != nil {
				return err
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
}

// slow is a reader whose answers arrive a while after they were given, so that the
// other manager often acts in between.
func slow(inner client.WithWatch) client.Reader {
	return interceptor.NewClient(inner, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			defer time.Sleep(rand.N(20 * time.Millisecond))
			return c.List(ctx, list, opts...)
		},
	})
}

// Two managers without leader election, each with a stale cache and random
// conflicts: 200 machines race for 50 hosts. No claim is ever executed on two hosts, and no host is left free while machines
// wait.
func TestRace(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	const managers = 2
	hosts, machines := 50, 200
	agents := make([]*testenv.Agent, 0, hosts)
	for i := range hosts {
		agents = append(agents, w.host(fmt.Sprintf("host-%02d", i)))
	}
	keys := make([]client.ObjectKey, 0, machines)
	for i := range machines {
		keys = append(keys, w.machine(fmt.Sprintf("m%03d", i), func(_ *clusterv1.Machine, m *infrav1.HostMachine) {
			if i%2 == 0 {
				// As a pool makes them: no write of theirs tells the managers apart.
				m.Spec.ClaimID, m.Finalizers = fmt.Sprintf("claim-%03d", i), []string{infrav1.HostMachineFinalizer}
			}
		}))
	}
	requested := watchOperations(w)
	var wg sync.WaitGroup
	for n := range managers {
		manager := w.reconciler(lagging(env.Client, rand.New(rand.NewPCG(uint64(n), 1))))
		manager.APIReader = slow(env.Client)
		queue := make(chan client.ObjectKey)
		for range 8 {
			wg.Go(func() { work(t, manager, queue) })
		}
		wg.Go(func() {
			defer close(queue)
			for range 2 {
				for _, key := range keys {
					queue <- key
				}
			}
		})
	}
	wg.Wait()
	for claimID, hosts := range requested() {
		if len(hosts) > 1 {
			t.Errorf("claim %s was to be executed on %v", claimID, hosts)
		}
	}
	checkClaims(t, w, agents, settle(w, agents, keys))
}

// watchOperations looks at every operation from now on. The function it returns tells the
// hosts that were told to bootstrap, at any time, by the claim it was for.
func watchOperations(w *world) func() map[string][]string {
	w.t.Helper()
	hosts := func() *infrav1.HostList {
		list := &infrav1.HostList{}
		if err := env.Client.List(w.t.Context(), list, client.InNamespace(w.namespace)); err != nil {
			w.t.Fatal(err)
		}
		return list
	}
	watch, err := env.Client.Watch(w.t.Context(), &infrav1.HostList{}, client.InNamespace(w.namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: hosts().ResourceVersion}})
	if err != nil {
		w.t.Fatal(err)
	}
	// The API server ends the watch of somebody who doesn't read.
	seen := make(chan *infrav1.Host, 1<<14)
	go func() {
		defer close(seen)
		for event := range watch.ResultChan() {
			if h, ok := event.Object.(*infrav1.Host); ok {
				seen <- h
			}
		}
	}()
	return func() map[string][]string {
		defer watch.Stop()
		requested, last := map[string][]string{}, map[string]string{}
		for _, h := range hosts().Items {
			last[h.Name] = h.ResourceVersion
		}
		for len(last) > 0 {
			h, ok := <-seen
			if !ok {
				w.t.Fatal("the watch of hosts ended")
			}
			if claim, desired := h.Spec.Claim, h.Spec.Desired; desired != nil && desired.Phase == infrav1.HostDesiredBootstrapped && !slices.Contains(requested[claim.ClaimID], h.Name) {
				requested[claim.ClaimID] = append(requested[claim.ClaimID], h.Name)
			}
			if last[h.Name] == h.ResourceVersion {
				delete(last, h.Name)
			}
		}
		return requested
	}
}

func work(t *testing.T, manager *hostmachine.Reconciler, queue <-chan client.ObjectKey) {
	for key := range queue {
		_, err := manager.Reconcile(context.Background(), ctrl.Request{NamespacedName: key})
		if err != nil && !apierrors.IsConflict(err) && !strings.Contains(err.Error(), "made up by the test") && !strings.Contains(err.Error(), "the object has been modified") {
			t.Errorf("%s: %v", key.Name, err)
		}
	}
}

// settle lets surplus hosts reset and the machines that wait have them.
func settle(w *world, agents []*testenv.Agent, keys []client.ObjectKey) []*infrav1.HostMachine {
	w.t.Helper()
	var machines []*infrav1.HostMachine
	var waiting []client.ObjectKey
	holds := map[string]bool{}
	for _, agent := range agents {
		if claim := agent.Host(w.t).Spec.Claim; claim != nil {
			holds[claim.MachineName] = true
		}
	}
	for _, key := range keys {
		if !holds[key.Name] {
			waiting = append(waiting, key)
			continue
		}
		m, _ := w.reconcile(key)
		machines = append(machines, m)
	}
	for _, agent := range agents {
		h := agent.Host(w.t)
		if h.Spec.Desired != nil && h.Spec.Desired.Phase == infrav1.HostDesiredReset {
			agent.Obey(w.t, w.clock.Now())
			w.clear(agent)
			h.Spec.Claim = nil
		}
		for h.Spec.Claim == nil && len(waiting) > 0 {
			m, _ := w.reconcile(waiting[0])
			waiting = waiting[1:]
			machines = append(machines, m)
			if h = agent.Host(w.t); m.Spec.ProviderID == "" {
				break
			}
		}
	}
	return machines
}

func checkClaims(t *testing.T, w *world, agents []*testenv.Agent, machines []*infrav1.HostMachine) {
	t.Helper()
	holders := map[string]string{}
	for _, agent := range agents {
		h := agent.Host(t)
		if h.Spec.Claim == nil || h.Spec.Desired == nil {
			t.Errorf("Host %s stayed idle although machines wait: %+v", h.Name, h.Spec)
			continue
		}
		if other, ok := holders[h.Spec.Claim.ClaimID]; ok {
			t.Errorf("claim %s is executed on both %s and %s", h.Spec.Claim.ClaimID, other, h.Name)
		}
		holders[h.Spec.Claim.ClaimID] = h.Name
	}
	for _, m := range machines {
		if m.Spec.ProviderID == "" {
			continue
		}
		if want := infrav1.ProviderID(w.namespace, holders[m.Spec.ClaimID], m.Spec.ClaimID); m.Spec.ProviderID != want {
			t.Errorf("%s believes to be on %s, is on %s", m.Name, m.Spec.ProviderID, want)
		}
	}
}
