package hostmachinepool_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// stranded is a pool of two, one of which was claimed and asked to bootstrap; then its
// host fell silent. No MachineHealthCheck looks at it, and another host is free.
type stranded struct {
	*sickbay
	lost string
}

func newStranded(t *testing.T) *stranded {
	t.Helper()
	s := &stranded{sickbay: newSickbay(t, 2, infrav1.HostMachinePoolRemediation{})}
	s.lost = s.hostMachines()[0].Name
	m := s.member(s.lost)
	m.Status.Initialization.Provisioned = nil
	s.updateStatus(m)
	h := s.agent().Host(t)
	h.Spec.ClaimGeneration = 1
	h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredBootstrapped, OperationID: host.BootstrapOperationID(m.Spec.ClaimID), ProviderID: m.Spec.ProviderID}
	s.update(h)
	s.agent().Connect(t, false)
	s.probe(metav1.ConditionTrue)
	s.list(s.hostMachines()[0].Spec.ProviderID, s.hostMachines()[1].Spec.ProviderID)
	s.nodes(s.hostMachines()[1].Name)
	s.nameNodes("node-of-" + s.hostMachines()[1].Name)
	s.addHost("spare")
	s.reconcile()
	return s
}

func (s *stranded) agent() *testenv.Agent { return s.agents["host-of-"+s.lost] }

func (s *stranded) update(o client.Object) {
	s.t.Helper()
	if err := env.Client.Update(ctx, o); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stranded) updateStatus(o client.Object) {
	s.t.Helper()
	if err := env.Client.Status().Update(ctx, o); err != nil {
		s.t.Fatal(err)
	}
}

// probe says what core says of its connection to the cluster.
func (s *stranded) probe(status metav1.ConditionStatus) {
	s.t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: s.key.Namespace, Name: testenv.ClusterName}, cluster); err != nil {
		s.t.Fatal(err)
	}
	conditions.Set(cluster, metav1.Condition{Type: clusterv1.ClusterRemoteConnectionProbeCondition, Status: status, Reason: "Test"})
	s.updateStatus(cluster)
}

func (s *stranded) getMachinePool() *clusterv1.MachinePool {
	s.t.Helper()
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(s.machinePool), s.machinePool); err != nil {
		s.t.Fatal(err)
	}
	return s.machinePool
}

// list is what core has taken over of the pool's providerIDList.
func (s *stranded) list(ids ...string) {
	s.t.Helper()
	s.getMachinePool().Spec.ProviderIDList = ids
	s.update(s.machinePool)
}

// nameNodes are the Nodes that core found for the MachinePool.
func (s *stranded) nameNodes(names ...string) {
	s.t.Helper()
	s.getMachinePool().Status.NodeRefs = nil
	for _, name := range names {
		s.machinePool.Status.NodeRefs = append(s.machinePool.Status.NodeRefs, corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: name})
	}
	s.updateStatus(s.machinePool)
}

// nodes gives machines their Nodes.
func (s *stranded) nodes(names ...string) {
	s.t.Helper()
	for _, name := range names {
		m := s.machine(name)
		m.Status.NodeRef.Name = "node-of-" + name
		s.updateStatus(m)
	}
}

func (s *stranded) givenUp() bool {
	s.t.Helper()
	s.reconcile()
	m := &infrav1.HostMachine{}
	err := env.Client.Get(ctx, client.ObjectKey{Namespace: s.key.Namespace, Name: s.lost}, m)
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	return err != nil || !m.DeletionTimestamp.IsZero()
}

func TestClaimedHostThatNeverBegins(t *testing.T) {
	s := newStranded(t)
	s.step(9 * time.Minute)
	if s.givenUp() {
		t.Fatal("given up before the deadline")
	}
	s.step(2 * time.Minute)
	if !s.givenUp() {
		t.Fatalf("the pool waits for ever: %+v", s.member(s.lost))
	}
	if n := len(s.staying()); n != 2 {
		t.Errorf("%d members stay, want 2", n)
	}
	for name := range s.staying() {
		if name == s.lost {
			t.Error("it stays")
		}
	}
}

// What may have joined is never given up without a MachineHealthCheck.
func TestHostThatMayHaveJoinedIsKept(t *testing.T) {
	for name, change := range map[string]func(*stranded){
		"its agent is back": func(s *stranded) { s.agent().Connect(s.t, true) },
		"its agent began": func(s *stranded) {
			claimID := s.member(s.lost).Spec.ClaimID
			s.agent().Report(s.t, func(status *infrav1.HostStatus) {
				status.ObservedOperation = &infrav1.ObservedOperation{
					ID: host.BootstrapOperationID(claimID), ClaimID: claimID, State: infrav1.OperationRunning,
					Phase: infrav1.HostDesiredBootstrapped, StartTime: metav1.NewTime(s.clock.Now()),
				}
			})
		},
		"the report of its agent was lost": func(s *stranded) {
			s.agent().Report(s.t, func(status *infrav1.HostStatus) { *status = infrav1.HostStatus{} })
		},
		"core does not reach the cluster": func(s *stranded) { s.probe(metav1.ConditionFalse) },
		"core has not taken over its ID":  func(s *stranded) { s.list("slipway://other") },
		"a Node that is no other member's": func(s *stranded) {
			s.nameNodes("node-of-"+s.hostMachines()[1].Name, "some-node")
		},
		"its Machine has a Node": func(s *stranded) { s.nodes(s.lost) },
		"its Host is gone": func(s *stranded) {
			if err := env.Client.Delete(ctx, s.agent().Host(s.t)); err != nil {
				s.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStranded(t)
			change(s)
			s.step(24 * time.Hour)
			if s.givenUp() {
				t.Error("it was given up")
			}
		})
	}
}

// Without an operation no agent begins, whatever core sees.
func TestHostWithoutOperationIsGivenUp(t *testing.T) {
	s := newStranded(t)
	h := s.agent().Host(t)
	h.Spec.Desired = nil
	s.update(h)
	s.probe(metav1.ConditionUnknown)
	s.step(11 * time.Minute)
	if !s.givenUp() {
		t.Error("the pool waits for ever")
	}
}
