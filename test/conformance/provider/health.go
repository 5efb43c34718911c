package provider

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// healthRules are what a MachineHealthCheck relies on: whoever owns a machine that it
// finds unhealthy remediates it, and tells so.
var healthRules = []Rule{
	{"poolMachine", false, unhealthyPoolMachine},
	{"machine", false, unhealthyMachine},
	{"waitingMachine", false, waitingMachine},
}

// The machine of a pool: core leaves it to the provider. Nothing is done while the
// check holds back; then what spec.remediation says, which is by default another
// machine in its place.
func unhealthyPoolMachine(t *testing.T, s *Suite) {
	f := newReadyFixture(t, s)
	f.addControlPlane()
	s.addHosts(t, f.namespace, 2)
	p := f.newPool(2, func(_ *clusterv1.MachinePool, infra *infrav1.HostMachinePool) {
		infra.Spec.Remediation.Steps = []infrav1.RemediationStep{{Action: infrav1.RemediationRebootstrap}}
	})
	f.awaitNodes(p, 2)
	check := f.newHealthCheck(clusterv1.MachinePoolNameLabel, poolName, 0)
	f.awaitHealthy(check, 2)

	first := f.machines(p)[0]
	host := first.Status.NodeRef.Name
	f.sicken(host)
	testenv.Object(t, s.Client, &first, "the check fails", func(m *clusterv1.Machine) string {
		return unless(conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition), "%v", m.Status.Conditions)
	})
	testenv.Object(t, s.Client, p.infra, "the pool waits for the check", func(infra *infrav1.HostMachinePool) string {
		message := conditions.GetMessage(infra, clusterv1.RemediatingCondition)
		return unless(strings.Contains(message, "holds remediation back"), "it tells %q", message)
	})
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(&first), &first); err != nil || !first.DeletionTimestamp.IsZero() {
		t.Fatalf("remediated although the check holds back: %v, deleted %v", err, first.DeletionTimestamp)
	}

	answers := f.watchAnswers()
	change(t, s, check, func(c *clusterv1.MachineHealthCheck) {
		c.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = ptr.To(intstr.FromInt32(1))
	})
	f.awaitSuccessor(p, first.UID, host)
	f.awaitHealthy(check, 2)
	answers.expect(first.UID)

	s.addHost(t, f.namespace, "spare")
	change(t, s, p.infra, func(infra *infrav1.HostMachinePool) { infra.Spec.Remediation.Steps = nil })
	machines := f.machines(p)
	second := machines[slices.IndexFunc(machines, func(m clusterv1.Machine) bool { return m.Status.NodeRef.Name != host })]
	f.sicken(second.Status.NodeRef.Name)
	testenv.Gone(t, s.Client, &second)
	answers.expect(second.UID)
	f.awaitHealthy(check, 2)
}

// A Machine of a MachineSet: core remediates it, by deleting it. Its host is given up
// clean, and another Machine gets one.
func unhealthyMachine(t *testing.T, s *Suite) {
	f := newReadyFixture(t, s)
	f.addControlPlane()
	hosts := s.addHosts(t, f.namespace, 2)
	check := f.newHealthCheck(clusterv1.MachineSetNameLabel, f.newMachineSet(1), 1)
	f.awaitHealthy(check, 1)

	sick := f.machinesOf(clusterv1.MachineSetNameLabel)[0]
	f.sicken(sick.Status.NodeRef.Name)
	testenv.Gone(t, s.Client, &sick)
	f.awaitHealthy(check, 1)
	host := hosts[slices.IndexFunc(hosts, func(h *simulatedHost) bool { return h.key.Name == sick.Status.NodeRef.Name })]
	if host.executor.finishedResets() == 0 {
		t.Errorf("host %s was given up without a reset", host.key.Name)
	}
}

// A Machine that waits for a host for longer than the check waits for a Node: nobody deletes
// it, since another one would wait, too. It gets the host that comes, and is looked at again.
func waitingMachine(t *testing.T, s *Suite) {
	f := newReadyFixture(t, s)
	f.addControlPlane()
	s.addHosts(t, f.namespace, 1)
	set := f.newMachineSet(2)
	check := f.newHealthCheck(clusterv1.MachineSetNameLabel, set, 2)

	waits := func(m clusterv1.Machine) bool { return !m.Status.NodeRef.IsDefined() }
	var waiting clusterv1.Machine
	poll.Until(t, "one machine has a Node, and one waits for a host", func() error {
		machines := f.machinesOf(clusterv1.MachineSetNameLabel)
		i := slices.IndexFunc(machines, waits)
		if len(machines) != 2 || i < 0 || waits(machines[1-i]) {
			return fmt.Errorf("there are %d machines, number %d waits", len(machines), i)
		}
		waiting = machines[i]
		return nil
	})
	f.judgeStartup(check, &waiting, time.Minute)
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(&waiting), &waiting); err != nil || !waiting.DeletionTimestamp.IsZero() ||
		conditions.IsFalse(&waiting, clusterv1.MachineHealthCheckSucceededCondition) {
		t.Fatalf("a machine that waited for a host was remediated, or will be: %v, deleted %v, %v", err, waiting.DeletionTimestamp, waiting.Status.Conditions)
	}

	s.addHost(t, f.namespace, "late")
	f.awaitHealthy(check, 2)
	for _, m := range f.machinesOf(clusterv1.MachineSetNameLabel) {
		if value, marked := m.Annotations[clusterv1.MachineSkipRemediationAnnotation]; marked {
			t.Errorf("Machine %s with Node %s is still passed over by health checks: %q", m.Name, m.Status.NodeRef.Name, value)
		}
	}
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(&waiting), &waiting); err != nil {
		t.Errorf("the machine that waited did not get the host that came: %v", err)
	}
}

// judgeStartup has a check judge a Machine once it was without a Node for longer than limit,
// and lifts that limit again: what comes after it may take longer. The time begins with
// whatever came last: the Machine, or what its Cluster has to have before it
// (needsRemediation in core/reconcilers/machinehealthcheck of Cluster API).
func (f *fixture) judgeStartup(check *clusterv1.MachineHealthCheck, m *clusterv1.Machine, limit time.Duration) {
	f.t.Helper()
	if err := f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(f.cluster), f.cluster); err != nil {
		f.t.Fatal(err)
	}
	begin := m.CreationTimestamp.Time
	for _, needed := range []string{clusterv1.ClusterControlPlaneInitializedCondition, clusterv1.ClusterInfrastructureReadyCondition} {
		if c := conditions.Get(f.cluster, needed); c != nil && c.LastTransitionTime.After(begin) {
			begin = c.LastTransitionTime.Time
		}
	}
	time.Sleep(time.Until(begin.Add(limit + time.Second)))
	before := check.Spec.Checks.NodeStartupTimeoutSeconds
	for _, seconds := range []*int32{ptr.To(int32(limit.Seconds())), before} {
		change(f.t, f.Suite, check, func(c *clusterv1.MachineHealthCheck) { c.Spec.Checks.NodeStartupTimeoutSeconds = seconds })
		generation := check.Generation
		testenv.Object(f.t, f.Client, check, "the check has judged the Machines", func(c *clusterv1.MachineHealthCheck) string {
			return unless(c.Status.ObservedGeneration >= generation, "it has seen generation %d of %d", c.Status.ObservedGeneration, generation)
		})
	}
}

// newMachineSet makes a MachineSet and tells its name, which its Machines have in a label.
func (f *fixture) newMachineSet(replicas int32) string {
	f.t.Helper()
	meta := metav1.ObjectMeta{Namespace: f.namespace, Name: "set"}
	labels := map[string]string{clusterv1.ClusterNameLabel: clusterName, clusterv1.MachineSetNameLabel: meta.Name}
	set := &clusterv1.MachineSet{ObjectMeta: *meta.DeepCopy()}
	set.Spec = clusterv1.MachineSetSpec{
		ClusterName: clusterName, Replicas: ptr.To(replicas), Selector: metav1.LabelSelector{MatchLabels: labels},
		Template: clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: labels}, Spec: clusterv1.MachineSpec{
			ClusterName: clusterName, Version: version,
			Bootstrap:         clusterv1.Bootstrap{DataSecretName: ptr.To("bootstrap-set")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "HostMachineTemplate", Name: meta.Name},
		}},
	}
	f.create(f.bootstrapSecret("bootstrap-set"), &infrav1.HostMachineTemplate{ObjectMeta: meta}, set)
	return meta.Name
}

// newHealthCheck makes a MachineHealthCheck of the machines with a label. It allows
// remediation while no more of them are unhealthy than given.
func (f *fixture) newHealthCheck(label, value string, unhealthy int32) *clusterv1.MachineHealthCheck {
	f.t.Helper()
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: value}}
	check.Spec = clusterv1.MachineHealthCheckSpec{
		ClusterName: clusterName,
		Selector:    metav1.LabelSelector{MatchLabels: map[string]string{label: value}},
		Checks: clusterv1.MachineHealthCheckChecks{UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: ptr.To(int32(0))},
		}},
	}
	check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = ptr.To(intstr.FromInt32(unhealthy))
	f.create(check)
	return check
}

// awaitHealthy waits until the check looks at so many machines and finds them all well.
func (f *fixture) awaitHealthy(check *clusterv1.MachineHealthCheck, want int32) {
	f.t.Helper()
	testenv.Object(f.t, f.Client, check, fmt.Sprintf("%d machines are healthy", want), func(c *clusterv1.MachineHealthCheck) string {
		expected, healthy := ptr.Deref(c.Status.ExpectedMachines, -1), ptr.Deref(c.Status.CurrentHealthy, -1)
		if expected != want || healthy != want {
			return fmt.Sprintf("%d of %d", healthy, expected)
		}
		machines := &clusterv1.MachineList{}
		f.list(machines, client.MatchingLabels(c.Spec.Selector.MatchLabels))
		for i := range machines.Items {
			if m := &machines.Items[i]; !m.Status.NodeRef.IsDefined() || !conditions.IsTrue(m, clusterv1.MachineHealthCheckSucceededCondition) {
				return fmt.Sprintf("Machine %s with Node %q: %v", m.Name, m.Status.NodeRef.Name, conditions.Get(m, clusterv1.MachineHealthCheckSucceededCondition))
			}
		}
		return ""
	})
}

// sicken makes a Node look as one does whose kubelet is silent.
func (f *fixture) sicken(name string) {
	f.t.Helper()
	node := &corev1.Node{}
	if err := f.Workload.Client.Get(f.t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		f.t.Fatal(err)
	}
	patch := client.MergeFrom(node.DeepCopy())
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			c.Status, c.Reason, c.LastTransitionTime = corev1.ConditionUnknown, "NodeStatusUnknown", metav1.Now()
		}
	}
	if err := f.Workload.Client.Status().Patch(f.t.Context(), node, patch); err != nil {
		f.t.Fatal(err)
	}
}

// awaitSuccessor waits for another Machine of the pool on a host.
func (f *fixture) awaitSuccessor(p *pool, predecessor types.UID, host string) {
	f.t.Helper()
	poll.Until(f.t, "another Machine runs on "+host, func() error {
		for _, m := range f.machines(p) {
			if m.UID != predecessor && m.Status.NodeRef.Name == host {
				return nil
			}
		}
		return fmt.Errorf("none does")
	})
}

// answers are the Machines whose owner told the check that it deletes them.
type answers struct {
	t     *testing.T
	given chan types.UID
}

// watchAnswers begins to look for them.
func (f *fixture) watchAnswers() *answers {
	f.t.Helper()
	watch, err := f.Client.Watch(f.t.Context(), &clusterv1.MachineList{}, client.InNamespace(f.namespace))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(watch.Stop)
	a := &answers{t: f.t, given: make(chan types.UID)}
	go func() {
		defer close(a.given)
		for event := range watch.ResultChan() {
			m, ok := event.Object.(*clusterv1.Machine)
			if !ok || conditions.GetReason(m, clusterv1.MachineOwnerRemediatedCondition) != clusterv1.MachineSetMachineRemediationMachineDeletingReason {
				continue
			}
			select {
			case a.given <- m.UID:
			case <-f.t.Context().Done():
				return
			}
		}
	}()
	return a
}

// expect waits for the answer for a Machine, which may be gone by now.
func (a *answers) expect(uid types.UID) {
	a.t.Helper()
	for {
		switch given := poll.Receive(a.t, fmt.Sprintf("the owner of Machine %s tells that it deletes it", uid), a.given); given {
		case uid:
			return
		case "":
			a.t.Fatal("the watch of Machines ended")
		}
	}
}
