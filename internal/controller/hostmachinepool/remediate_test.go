package hostmachinepool_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/controller/hostmachinepool"
	"github.com/slipway-dev/slipway/internal/pool"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// sickbay is a pool whose machines have hosts, under a clock of its own.
type sickbay struct {
	*world
	clock  *testclock.FakeClock
	agents map[string]*testenv.Agent
}

func newSickbay(t *testing.T, replicas int32, spec infrav1.HostMachinePoolRemediation) *sickbay {
	t.Helper()
	w := newWorld(t, replicas, func(_ *clusterv1.MachinePool, pool *infrav1.HostMachinePool) { pool.Spec.Remediation = spec })
	s := &sickbay{world: w, clock: testclock.NewFakeClock(time.Now().Truncate(time.Second)), agents: map[string]*testenv.Agent{}}
	s.Clock = s.clock
	w.reconcile()
	w.claim()
	for _, m := range w.hostMachines() {
		s.addHost("host-of-"+m.Name, func(h *infrav1.Host) {
			h.Spec.Claim = &infrav1.HostClaim{MachineName: m.Name, ClusterName: testenv.ClusterName, ClaimID: m.Spec.ClaimID}
		})
	}
	w.provision()
	w.reconcile()
	return s
}

// addHost makes a Host with a connected agent.
func (s *sickbay) addHost(name string, mutate ...func(*infrav1.Host)) {
	s.t.Helper()
	s.agents[name] = testenv.NewHost(s.t, env.Client, s.key.Namespace, name, s.clock.Now(), mutate...)
}

// check plays a MachineHealthCheck that passes or fails a machine. Like the real
// one it makes OwnerRemediated only where it is missing or true.
func (s *sickbay) check(name string, healthy bool) {
	s.t.Helper()
	m := s.machine(name)
	status := metav1.ConditionFalse
	if healthy {
		status = metav1.ConditionTrue
	}
	conditions.Set(m, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: status, Reason: "x"})
	if !healthy && !conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition) {
		conditions.Set(m, metav1.Condition{
			Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
			Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, Message: "Waiting for remediation",
		})
		v1beta1conditions.MarkFalse(m, clusterv1.MachineOwnerRemediatedV1Beta1Condition, clusterv1.WaitingForRemediationV1Beta1Reason, clusterv1.ConditionSeverityWarning, "")
	}
	if err := env.Client.Status().Update(ctx, m); err != nil {
		s.t.Fatal(err)
	}
}

func (s *sickbay) machine(name string) *clusterv1.Machine {
	s.t.Helper()
	m := &clusterv1.Machine{}
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: s.key.Namespace, Name: name}, m); err != nil {
		s.t.Fatal(err)
	}
	return m
}

func (s *sickbay) member(name string) *infrav1.HostMachine {
	s.t.Helper()
	m := &infrav1.HostMachine{}
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: s.key.Namespace, Name: name}, m); err != nil {
		s.t.Fatal(err)
	}
	return m
}

func (s *sickbay) step(d time.Duration) { s.clock.SetTime(s.clock.Now().Add(d)) }

// wantAnswer checks what the pool answers the MachineHealthCheck.
func (s *sickbay) wantAnswer(name, reason, message string) {
	s.t.Helper()
	got := conditions.Get(s.machine(name), clusterv1.MachineOwnerRemediatedCondition)
	if got == nil || got.Status != metav1.ConditionFalse || got.Reason != reason || !strings.Contains(got.Message, message) {
		s.t.Errorf("OwnerRemediated of %s = %+v, want %s: %s", name, got, reason, message)
	}
}

func ladder(actions ...infrav1.RemediationAction) infrav1.HostMachinePoolRemediation {
	var spec infrav1.HostMachinePoolRemediation
	for _, action := range actions {
		spec.Steps = append(spec.Steps, infrav1.RemediationStep{Action: action, TimeoutSeconds: ptr.To[int32](300)})
	}
	return spec
}

func TestRemediationByReboot(t *testing.T) {
	s := newSickbay(t, 2, ladder(infrav1.RemediationReboot, infrav1.RemediationReplace))
	sick := s.hostMachines()[0].Name
	s.check(sick, false)
	pool := s.reconcile()
	if reboots := ptr.Deref(s.member(sick).Spec.Reboots, 0); reboots != 1 {
		t.Fatalf("%d reboots asked for, want 1", reboots)
	}
	s.wantAnswer(sick, clusterv1.RemediatingReason, "for Reboot to help")
	if c := conditions.Get(pool, clusterv1.RemediatingCondition); c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "1 unhealthy machines; "+sick) {
		t.Errorf("Remediating = %+v", c)
	}

	s.check(sick, true)
	pool = s.reconcile()
	m := s.machine(sick)
	if conditions.Has(m, clusterv1.MachineOwnerRemediatedCondition) || v1beta1conditions.Has(m, clusterv1.MachineOwnerRemediatedV1Beta1Condition) {
		t.Errorf("the answer stays although the machine recovered: %+v", m.Status.Conditions)
	}
	if !conditions.IsFalse(pool, clusterv1.RemediatingCondition) {
		t.Errorf("Remediating = %+v", conditions.Get(pool, clusterv1.RemediatingCondition))
	}

	s.step(20 * time.Minute)
	s.check(sick, false)
	s.reconcile()
	if m := s.member(sick); m.DeletionTimestamp.IsZero() || ptr.Deref(m.Spec.Reboots, 0) != 1 {
		t.Errorf("soon unhealthy again, but not replaced: %+v", m.ObjectMeta)
	}
	s.wantAnswer(sick, clusterv1.MachineSetMachineRemediationMachineDeletingReason, "Machine is deleting")
	if !v1beta1conditions.IsTrue(s.machine(sick), clusterv1.MachineOwnerRemediatedV1Beta1Condition) {
		t.Error("the condition of v1beta1 does not say that the machine is replaced")
	}
	s.release()
	s.reconcile()
	if members := s.hostMachines(); len(members) != 2 || leaving(members) != nil {
		t.Errorf("%d members, want 2", len(members))
	}
}

func TestRemediationForgetsAfterTheHealthyPeriod(t *testing.T) {
	s := newSickbay(t, 2, ladder(infrav1.RemediationReboot, infrav1.RemediationReplace))
	sick := s.hostMachines()[0].Name
	s.check(sick, false)
	s.reconcile()
	s.check(sick, true)
	s.step(time.Hour)
	s.reconcile()
	if _, ok := s.member(sick).Annotations[infrav1.RemediationAnnotation]; ok {
		t.Error("the attempt is not forgotten")
	}
	s.check(sick, false)
	s.reconcile()
	if reboots := ptr.Deref(s.member(sick).Spec.Reboots, 0); reboots != 2 {
		t.Errorf("%d reboots asked for, want 2", reboots)
	}
}

func TestRemediationByRebootstrap(t *testing.T) {
	s := newSickbay(t, 2, ladder(infrav1.RemediationRebootstrap, infrav1.RemediationReplace))
	sick := s.hostMachines()[0].Name
	s.check(sick, false)
	s.reconcile()
	members := s.hostMachines()
	if len(members) != 3 || len(leaving(members)) != 1 {
		t.Fatalf("%d members, %d leaving", len(members), len(leaving(members)))
	}
	var successor *infrav1.HostMachine
	for i := range members {
		if members[i].Spec.HostName == "host-of-"+sick {
			successor = &members[i]
		}
	}
	if successor == nil {
		t.Fatalf("no machine follows on the host: %+v", members)
	}
	s.release()
	s.reconcile()
	if got := len(s.hostMachines()); got != 2 {
		t.Fatalf("%d members, want 2", got)
	}

	// The host is never free again: after the time of the step, another one is
	// taken, which there must be.
	s.step(5 * time.Minute)
	s.reconcile()
	if !s.member(successor.Name).DeletionTimestamp.IsZero() {
		t.Fatal("the machine is given up although there is no other host")
	}
	s.addHost("spare")
	s.reconcile()
	if s.member(successor.Name).DeletionTimestamp.IsZero() {
		t.Error("the machine that never comes up is not replaced")
	}
}

// A silent host may come back: its machine is given up only for another host.
func TestSilentHostIsReplacedOnlyByAnother(t *testing.T) {
	s := newSickbay(t, 2, ladder(infrav1.RemediationReboot, infrav1.RemediationReplace))
	sick := s.hostMachines()[0].Name
	s.agents["host-of-"+sick].Connect(s.t, false)
	s.check(sick, false)
	s.reconcile()
	s.wantAnswer(sick, clusterv1.MachineSetMachineRemediationDeferredReason, "no other host is free and fits")
	if m := s.member(sick); !m.DeletionTimestamp.IsZero() || m.Spec.Reboots != nil {
		t.Fatalf("remediated: %+v", m)
	}
	s.addHost("spare")
	s.reconcile()
	if s.member(sick).DeletionTimestamp.IsZero() {
		t.Error("not replaced although a host is free")
	}
}

// A host that the pool may not use is no spare.
func TestSpareMustBeAllowed(t *testing.T) {
	rack := func(name string) func(*infrav1.Host) {
		return func(h *infrav1.Host) { h.Spec.FailureDomain = name }
	}
	for name, tc := range map[string]struct {
		mutate  func(*clusterv1.MachinePool, *infrav1.HostMachinePool)
		message string
	}{
		"failure domains of the MachinePool": {func(m *clusterv1.MachinePool, _ *infrav1.HostMachinePool) {
			m.Spec.FailureDomains = []string{"a"}
		}, "no other host is free and fits"},
		"hard spread": {func(_ *clusterv1.MachinePool, pool *infrav1.HostMachinePool) {
			pool.Spec.Spread = &infrav1.HostMachinePoolSpread{Hard: ptr.To(true)}
		}, "no other host is free and fits in failure domain a"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSickbay(t, 2, ladder(infrav1.RemediationReplace))
			sick := s.hostMachines()[0].Name
			for host, agent := range s.agents {
				h := agent.Host(t)
				if rack("b")(h); host == "host-of-"+sick {
					rack("a")(h)
				}
				if err := env.Client.Update(ctx, h); err != nil {
					t.Fatal(err)
				}
			}
			s.change(tc.mutate)
			s.agents["host-of-"+sick].Connect(t, false)
			s.addHost("elsewhere", rack("b"))
			s.check(sick, false)
			s.reconcile()
			s.wantAnswer(sick, clusterv1.MachineSetMachineRemediationDeferredReason, tc.message)
			if m := s.member(sick); !m.DeletionTimestamp.IsZero() {
				t.Fatal("the machine was given up for a host that its pool may not use")
			}
			s.addHost("spare", rack("a"))
			s.reconcile()
			if s.member(sick).DeletionTimestamp.IsZero() {
				t.Error("not replaced although a host is free")
			}
		})
	}
}

// change changes the MachinePool and the pool.
func (s *sickbay) change(mutate func(*clusterv1.MachinePool, *infrav1.HostMachinePool)) {
	s.t.Helper()
	pool := &infrav1.HostMachinePool{}
	for o, key := range map[client.Object]client.ObjectKey{s.machinePool: client.ObjectKeyFromObject(s.machinePool), pool: s.key} {
		if err := env.Client.Get(ctx, key, o); err != nil {
			s.t.Fatal(err)
		}
	}
	mutate(s.machinePool, pool)
	for _, o := range []client.Object{s.machinePool, pool} {
		if err := env.Client.Update(ctx, o); err != nil {
			s.t.Fatal(err)
		}
	}
}

// A host is emptied for maintenance as the strategy allows: by default another machine
// is there first, and none is taken before a host is free for it.
func TestEvacuatedHostLosesItsMachine(t *testing.T) {
	s := newSickbay(t, 2, infrav1.HostMachinePoolRemediation{MaxInFlight: ptr.To(intstr.FromInt32(0))})
	m := s.member(s.hostMachines()[0].Name)
	conditions.Set(m, metav1.Condition{Type: infrav1.EvacuatingCondition, Status: metav1.ConditionTrue, Reason: "Evacuate"})
	if err := env.Client.Status().Update(ctx, m); err != nil {
		t.Fatal(err)
	}
	s.reconcile()
	if n := len(s.hostMachines()); n != 2 || !s.member(m.Name).DeletionTimestamp.IsZero() {
		t.Fatalf("%d members although there is no other host", n)
	}
	s.addHost("spare")
	s.reconcile()
	if n := len(s.hostMachines()); n != 3 || !s.member(m.Name).DeletionTimestamp.IsZero() {
		t.Errorf("%d members, want one more before the machine goes", n)
	}
}

func TestRemediationIsLimited(t *testing.T) {
	s := newSickbay(t, 4, ladder(infrav1.RemediationReplace))
	members := s.hostMachines()
	for i := range 3 {
		s.check(members[i].Name, false)
	}
	s.reconcile()
	if n := len(leaving(s.hostMachines())); n != 1 {
		t.Fatalf("%d machines are replaced at once, maxInFlight is 1", n)
	}
	for _, m := range s.hostMachines() {
		s.check(m.Name, false)
	}
	s.release()
	s.reconcile()
	if n := len(leaving(s.hostMachines())); n != 0 {
		t.Errorf("%d machines are replaced although all look dead", n)
	}
}

// A check that holds remediation back leaves no OwnerRemediated; neither may the
// pool make one, which would start what the check forbids.
func TestRemediationIsHeldBackByTheCheck(t *testing.T) {
	s := newSickbay(t, 2, ladder(infrav1.RemediationReplace))
	sick := s.machine(s.hostMachines()[0].Name)
	conditions.Set(sick, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse, Reason: "x"})
	if err := env.Client.Status().Update(ctx, sick); err != nil {
		t.Fatal(err)
	}
	s.reconcile()
	if m := s.machine(sick.Name); conditions.Has(m, clusterv1.MachineOwnerRemediatedCondition) || !m.DeletionTimestamp.IsZero() {
		t.Errorf("remediated: %+v", m.Status.Conditions)
	}
}

// A manager killed after any of its writes: the machine is rebooted once, then made
// anew once.
func TestRemediationSurvivesCrashes(t *testing.T) {
	testenv.Skip(t)
	for _, action := range []infrav1.RemediationAction{infrav1.RemediationReboot, infrav1.RemediationRebootstrap, infrav1.RemediationReplace} {
		t.Run(string(action), func(t *testing.T) {
			t.Parallel()
			testenv.KilledAtEachWrite(t, 2, func(t *testing.T, crash *testenv.Crash) { crashInRemediation(t, action, crash) })
		})
	}
}

func crashInRemediation(t *testing.T, action infrav1.RemediationAction, crash *testenv.Crash) {
	s := newSickbay(t, 2, ladder(action))
	sick := s.hostMachines()[0].Name
	s.check(sick, false)
	c := testenv.NewCrashing(env.Client, crash)
	killed := &hostmachinepool.Reconciler{Client: c, APIReader: c, Recorder: s.Recorder, Clock: s.clock}
	for range 5 {
		if _, err := killed.Reconcile(ctx, ctrl.Request{NamespacedName: s.key}); err != nil && !errors.Is(err, testenv.ErrCrashed) && !strings.Contains(err.Error(), testenv.ErrCrashed.Error()) {
			t.Fatal(err)
		}
	}
	s.reconcile()
	members := s.hostMachines()
	pinned := 0
	for i := range members {
		if members[i].Spec.HostName != "" {
			pinned++
		}
	}
	switch action {
	case infrav1.RemediationReboot:
		if m := s.member(sick); ptr.Deref(m.Spec.Reboots, 0) != 1 || len(members) != 2 {
			t.Errorf("%d reboots, %d members; want 1 and 2", ptr.Deref(m.Spec.Reboots, 0), len(members))
		}
	case infrav1.RemediationRebootstrap:
		if pinned != 1 || len(members) != 3 || len(leaving(members)) != 1 {
			t.Errorf("%d members, %d of them on the same host, %d leave; want 3, 1, 1", len(members), pinned, len(leaving(members)))
		}
	default:
		if pinned != 0 || len(members) != 3 || len(leaving(members)) != 1 {
			t.Errorf("%d members, %d leave; want 3 and 1", len(members), len(leaving(members)))
		}
	}
	for _, m := range members {
		if attempt := pool.ParseAttempt(m.Annotations); m.Name == sick && (attempt == nil || attempt.Action != action) {
			t.Errorf("attempt = %+v", attempt)
		}
	}
}

// The check passes over a Machine that somebody annotates, and what it wrote before stays. No
// further step is taken until the annotation goes.
func TestSkippedMachineIsLeftAlone(t *testing.T) {
	s := newSickbay(t, 2, ladder(infrav1.RemediationReboot, infrav1.RemediationReplace))
	s.addHost("spare")
	sick := s.hostMachines()[0].Name
	annotate := func(mark string) {
		t.Helper()
		m := s.machine(sick)
		m.Annotations = map[string]string{clusterv1.MachineSkipRemediationAnnotation: mark}
		if err := env.Client.Update(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	s.check(sick, false)
	s.reconcile()
	annotate("")
	s.step(time.Hour)
	pool := s.reconcile()
	if !s.member(sick).DeletionTimestamp.IsZero() {
		t.Fatal("the next step deleted a Machine that an operator annotated")
	}
	const why = "annotation " + clusterv1.MachineSkipRemediationAnnotation
	if text := conditions.GetMessage(pool, clusterv1.RemediatingCondition); !strings.Contains(text, sick) || !strings.Contains(text, why) {
		t.Errorf("the pool does not say why nothing is done: %q", text)
	}
	if text := conditions.GetMessage(s.machine(sick), clusterv1.MachineOwnerRemediatedCondition); !strings.Contains(text, why) {
		t.Errorf("the Machine does not say why nothing is done: %q", text)
	}
	annotate(infrav1.WaitingForHostMark)
	s.reconcile()
	if s.member(sick).DeletionTimestamp.IsZero() {
		t.Error("no step because of the mark of the manager itself")
	}
}

// beside is a second pool of the same namespace and Cluster, with a host for each member.
func (s *sickbay) beside(name string, replicas int32, spec infrav1.HostMachinePoolRemediation) *sickbay {
	s.t.Helper()
	machinePool, pool := testenv.NewMachinePool(s.t, env.Client, s.key.Namespace, name, replicas, func(_ *clusterv1.MachinePool, pool *infrav1.HostMachinePool) {
		pool.Spec.Remediation = spec
	})
	other := &sickbay{
		world: &world{Reconciler: s.Reconciler, t: s.t, clock: s.world.clock, machinePool: machinePool, key: client.ObjectKeyFromObject(pool)},
		clock: s.clock, agents: map[string]*testenv.Agent{},
	}
	other.reconcile()
	for _, m := range other.members() {
		m.Spec.ProviderID = infrav1.ProviderID(m.Namespace, "host-of-"+m.Name, m.Spec.ClaimID)
		if err := env.Client.Update(ctx, &m); err != nil {
			s.t.Fatal(err)
		}
		other.addHost("host-of-"+m.Name, func(h *infrav1.Host) {
			h.Spec.Claim = &infrav1.HostClaim{MachineName: m.Name, ClusterName: testenv.ClusterName, ClaimID: m.Spec.ClaimID}
		})
		m.Status.Initialization.Provisioned = ptr.To(true)
		if err := env.Client.Status().Update(ctx, &m); err != nil {
			s.t.Fatal(err)
		}
	}
	other.reconcile()
	return other
}

// members are those of this pool.
func (s *sickbay) members() []infrav1.HostMachine {
	s.t.Helper()
	list := &infrav1.HostMachineList{}
	if err := env.Client.List(ctx, list, client.InNamespace(s.key.Namespace), client.MatchingLabels{clusterv1.MachinePoolNameLabel: s.key.Name}); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// silence fails a member whose agent is gone.
func (s *sickbay) silence(name string) {
	s.t.Helper()
	s.agents["host-of-"+name].Connect(s.t, false)
	s.check(name, false)
}

// The one free host is the spare of one machine, whichever pools and machines there are.
func TestSpareHostIsCountedOnce(t *testing.T) {
	gone := func(s *sickbay, name string) bool { return !s.member(name).DeletionTimestamp.IsZero() }
	t.Run("over pools", func(t *testing.T) {
		one := newSickbay(t, 2, ladder(infrav1.RemediationReplace))
		two := one.beside("others", 2, ladder(infrav1.RemediationReplace))
		one.addHost("spare")
		first, second := one.members()[0].Name, two.members()[0].Name
		one.silence(first)
		two.silence(second)
		one.reconcile()
		two.reconcile()
		if !gone(one, first) || gone(two, second) {
			t.Errorf("given up: %s %t, %s %t, want the first only", first, gone(one, first), second, gone(two, second))
		}
		one.addHost("another")
		two.reconcile()
		if !gone(two, second) {
			t.Errorf("%s stays although a second host is free", second)
		}
	})
	t.Run("over pools whose hosts are emptied", func(t *testing.T) {
		one := newSickbay(t, 2, ladder(infrav1.RemediationReplace))
		two := one.beside("others", 2, ladder(infrav1.RemediationReplace))
		one.addHost("spare")
		for _, s := range []*sickbay{one, two} {
			s.changePool(func(p *infrav1.HostMachinePool) {
				p.Spec.Strategy.MaxSurge, p.Spec.Strategy.MaxUnavailable = ptr.To(intstr.FromInt32(0)), ptr.To(intstr.FromInt32(1))
			})
			for _, m := range s.members() {
				machine := s.machine(m.Name)
				conditions.Set(machine, metav1.Condition{Type: clusterv1.AvailableCondition, Status: metav1.ConditionTrue, Reason: "Available"})
				if err := env.Client.Status().Update(ctx, machine); err != nil {
					t.Fatal(err)
				}
			}
			m := s.members()[0]
			conditions.Set(&m, metav1.Condition{Type: infrav1.EvacuatingCondition, Status: metav1.ConditionTrue, Reason: "Evacuate"})
			if err := env.Client.Status().Update(ctx, &m); err != nil {
				t.Fatal(err)
			}
		}
		one.reconcile()
		two.reconcile()
		if one, two := len(leaving(one.members())), len(leaving(two.members())); one != 1 || two != 0 {
			t.Errorf("%d and %d machines leave, want one of the first pool only", one, two)
		}
	})
	t.Run("over failure domains", func(t *testing.T) {
		s := newSickbay(t, 2, ladder(infrav1.RemediationReplace))
		s.changePool(func(p *infrav1.HostMachinePool) {
			p.Spec.Spread = &infrav1.HostMachinePoolSpread{Key: "rack", Hard: ptr.To(true)}
		})
		rack := func(name string) func(*infrav1.Host) {
			return func(h *infrav1.Host) { h.Labels = map[string]string{"rack": name} }
		}
		sick := s.members()[0]
		for _, m := range s.members() {
			h := s.agents["host-of-"+m.Name].Host(t)
			if rack("b")(h); m.Name == sick.Name {
				rack("a")(h)
			}
			if err := env.Client.Update(ctx, h); err != nil {
				t.Fatal(err)
			}
		}
		s.addHost("spare-a", rack("a"))
		s.addHost("spare-b", rack("b"))
		testenv.NewMachine(t, env.Client, s.key.Namespace, "waits", func(_ *clusterv1.Machine, m *infrav1.HostMachine) {
			m.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "a"}}
		})
		s.silence(sick.Name)
		s.reconcile()
		if gone(s, sick.Name) {
			t.Error("the machine is given up for a host of its failure domain for which another machine waits")
		}
	})
	t.Run("with a control plane", func(t *testing.T) {
		s := newSickbay(t, 2, ladder(infrav1.RemediationReplace))
		testenv.NewControlPlane(t, env.Client, s.key.Namespace, 2, nil)
		testenv.NewMachine(t, env.Client, s.key.Namespace, "plane-1", testenv.OfControlPlane)
		s.addHost("spare-1")
		s.addHost("spare-2")
		sick := s.members()[0].Name
		s.silence(sick)
		s.reconcile()
		if gone(s, sick) {
			t.Error("the machine is given up for a host that the control plane needs")
		}
		s.addHost("spare-3")
		s.reconcile()
		if !gone(s, sick) {
			t.Error("the machine stays although the control plane can spare a host")
		}
	})
	for name, c := range map[string]struct {
		wants     infrav1.HostMachineSpec
		givenAway bool
	}{
		"with a machine that waits":                      {infrav1.HostMachineSpec{}, false},
		"with a machine that waits for a host elsewhere": {infrav1.HostMachineSpec{Placement: infrav1.Placement{HostSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}}}, true},
		"with a machine that names it":                   {infrav1.HostMachineSpec{HostName: "spare"}, false},
		"with a machine that names another":              {infrav1.HostMachineSpec{HostName: "other"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSickbay(t, 2, ladder(infrav1.RemediationReplace))
			testenv.NewMachine(t, env.Client, s.key.Namespace, "waits", func(_ *clusterv1.Machine, m *infrav1.HostMachine) {
				m.Spec.Placement, m.Spec.HostName = c.wants.Placement, c.wants.HostName
			})
			s.addHost("spare")
			sick := s.members()[0].Name
			s.silence(sick)
			s.reconcile()
			if gone(s, sick) != c.givenAway {
				t.Errorf("the machine is given up for the spare host: %t, want %t", gone(s, sick), c.givenAway)
			}
		})
	}
}
