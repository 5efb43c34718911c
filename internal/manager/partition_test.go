package manager_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// network connects agents that beat fast, so that a cut is seen soon.
type network struct {
	mu       sync.Mutex
	cut      map[string]*atomic.Bool
	executed map[string][]string
}

const shortLease = 3

func connect(t *testing.T, agents []*testenv.Agent) *network {
	t.Helper()
	n := &network{cut: map[string]*atomic.Bool{}, executed: map[string][]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, agent := range agents {
		cut := &atomic.Bool{}
		n.cut[agent.Key.Name] = cut
		wg.Go(func() {
			for every(ctx, 100*time.Millisecond) {
				if cut.Load() {
					continue
				}
				beat(t, agent, shortLease)
				if agent.Obey(t, time.Now()) {
					n.mu.Lock()
					n.executed[agent.Key.Name] = append(n.executed[agent.Key.Name], agent.Status.ObservedOperation.ID)
					n.mu.Unlock()
				}
			}
		})
	}
	t.Cleanup(func() { cancel(); wg.Wait() })
	return n
}

func (n *network) of(host string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.executed[host])
}

// beat renews a Lease, which lasts for some seconds.
func beat(t *testing.T, agent *testenv.Agent, lasts int32) {
	lease := &coordinationv1.Lease{}
	if err := env.Client.Get(context.Background(), agent.Key, lease); err != nil {
		t.Errorf("get the heartbeat: %v", err)
		return
	}
	before := lease.DeepCopy()
	lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &metav1.MicroTime{Time: time.Now()}, &lasts
	if err := env.Client.Patch(context.Background(), lease, client.MergeFrom(before)); err != nil {
		t.Errorf("renew the heartbeat: %v", err)
	}
}

// A host is cut off past its MachineHealthCheck and replaced. It keeps its claim,
// is claimed by nobody, resets first when it returns, and serves another machine
// only then. Its providerID leaves the pool, upon which core deletes its Node, once.
func TestPartitionAndReturn(t *testing.T) {
	level.Deep(t)
	testenv.Skip(t)
	namespace := env.Namespace(t)
	testenv.NewCluster(t, env.Client, namespace)
	agents := make([]*testenv.Agent, 0, 3)
	for i := range 3 {
		agents = append(agents, testenv.NewHost(t, env.Client, namespace, fmt.Sprintf("host-%d", i+1), time.Now()))
	}
	machinePool, pool := testenv.NewMachinePool(t, env.Client, namespace, "workers", 2)
	startManager(t, optionsFor(namespace))
	n := connect(t, agents)
	play(t, nil, []*clusterv1.MachinePool{machinePool})
	poll.Until(t, "two machines run", poolIs(t, pool, 2))

	// Which of the hosts are claimed is up to placement: those of the machines first.
	slices.SortStableFunc(agents, func(a, b *testenv.Agent) int {
		rank := map[bool]int{true: 0, false: 1}
		return rank[a.Host(t).Spec.Claim != nil] - rank[b.Host(t).Spec.Claim != nil]
	})
	lost := agents[0].Host(t)
	oldID := infrav1.ProviderID(namespace, lost.Name, lost.Spec.Claim.ClaimID)
	lists := watchList(t, pool)
	n.cut[lost.Name].Store(true)
	poll.Until(t, "the host counts as away", func() error {
		if h := agents[0].Host(t); !conditions.IsFalse(h, infrav1.AgentConnectedCondition) {
			return fmt.Errorf("conditions %+v", h.Status.Conditions)
		}
		return nil
	})
	failCheck(t, namespace, lost.Spec.Claim.MachineName)
	poll.Until(t, "the third host takes over", func() error {
		if h := agents[2].Host(t); h.Status.Phase != infrav1.HostPhaseRunning {
			return fmt.Errorf("%s is %s", h.Name, h.Status.Phase)
		}
		return poolIs(t, pool, 2)()
	})

	// One more machine wants a host; the lost one must not be it.
	scale(t, machinePool, 3)
	poll.Until(t, "the third machine waits", func() error { return waits(t, namespace, "resetting ("+lost.Name+")") })
	h := agents[0].Host(t)
	if h.Spec.Claim == nil || h.Spec.Claim.ClaimID != lost.Spec.Claim.ClaimID || h.Spec.Desired.Phase != infrav1.HostDesiredReset {
		t.Fatalf("the lost host: %+v", h.Spec)
	}

	n.cut[lost.Name].Store(false)
	poll.Until(t, "the host that returned serves again", poolIs(t, pool, 3))
	h = agents[0].Host(t)
	want := []string{"bootstrap-" + lost.Spec.Claim.ClaimID, "reset-" + lost.Spec.Claim.ClaimID, "bootstrap-" + h.Spec.Claim.ClaimID}
	if got := n.of(lost.Name); !slices.Equal(got, want) || h.Spec.ClaimGeneration != 2 {
		t.Errorf("%s executed %v, want %v; generation %d", lost.Name, got, want, h.Spec.ClaimGeneration)
	}
	if left, back := lists(oldID); left != 1 || back {
		t.Errorf("providerID %s left the pool %d times, came back: %t", oldID, left, back)
	}
}

// failCheck says what a MachineHealthCheck says of a machine that it leaves to its
// owner.
func failCheck(t *testing.T, namespace, name string) {
	t.Helper()
	m := &clusterv1.Machine{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, m); err != nil {
		t.Fatal(err)
	}
	for _, conditionType := range []string{clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition} {
		conditions.Set(m, metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: "Test"})
	}
	if err := env.Client.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// waits fails unless a machine waits for a host for that reason.
func waits(t *testing.T, namespace, reason string) error {
	machines := &infrav1.HostMachineList{}
	if err := env.Client.List(t.Context(), machines, client.InNamespace(namespace)); err != nil {
		return err
	}
	why := ""
	for i := range machines.Items {
		if machines.Items[i].Spec.ProviderID == "" {
			why = conditions.GetMessage(&machines.Items[i], infrav1.HostClaimedCondition)
		}
	}
	if want := "No host available: 2 claimed (host-2, host-3); 1 " + reason; why != want {
		return fmt.Errorf("waits because %q, want %q", why, want)
	}
	return nil
}

// watchList follows the providerIDList of a pool. Of an ID it says how often it
// left, and whether it ever came back.
func watchList(t *testing.T, pool *infrav1.HostMachinePool) func(id string) (left int, back bool) {
	t.Helper()
	w, err := env.Client.Watch(t.Context(), &infrav1.HostMachinePoolList{}, client.InNamespace(pool.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var lists [][]string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			if p, ok := event.Object.(*infrav1.HostMachinePool); ok {
				mu.Lock()
				lists = append(lists, p.Spec.ProviderIDList)
				mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() { w.Stop(); <-done })
	return func(id string) (left int, back bool) {
		mu.Lock()
		defer mu.Unlock()
		present := true
		for _, list := range lists {
			switch has := slices.Contains(list, id); {
			case present && !has:
				left, present = left+1, false
			case !present && has:
				back, present = true, true
			}
		}
		return left, back
	}
}
