package hostmachinepool

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/pool"
)

// saying gives a member a condition.
func saying(m *infrav1.HostMachine, kind string, status metav1.ConditionStatus, message string) {
	conditions.Set(m, metav1.Condition{Type: kind, Status: status, Reason: "R", Message: message})
}

// What each condition says of a pool.
func TestConditionsOfAPool(t *testing.T) {
	const ready, rolling, up, down, machinesReady, current = clusterv1.ReadyCondition, clusterv1.RollingOutCondition, clusterv1.ScalingUpCondition,
		clusterv1.ScalingDownCondition, clusterv1.MachinesReadyCondition, clusterv1.MachinesUpToDateCondition
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	members := func(names ...string) func(*scope) { return func(s *scope) { s.hostMachines = testMembers(names...) } }
	machine := func(status metav1.ConditionStatus) func(*scope) {
		return func(s *scope) {
			m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			if status != "" {
				conditions.Set(&m, metav1.Condition{Type: ready, Status: status, Reason: "R", Message: "of the Machine"})
			}
			s.machines = append(s.machines, m)
		}
	}
	deleted := func(s *scope) { s.pool.DeletionTimestamp = ptr.To(metav1.Now()) }
	wants := func(n int) func(*scope) { return func(s *scope) { s.plan.Desired = n } }
	isReady := func(n int32) func(*scope) { return func(s *scope) { s.pool.Status.ReadyReplicas = n } }
	all := func(changes ...func(*scope)) func(*scope) {
		return func(s *scope) {
			for _, change := range changes {
				change(s)
			}
		}
	}
	for name, tc := range map[string]struct {
		change          func(*scope)
		kind            string
		status          metav1.ConditionStatus
		reason, message string
	}{
		"ready":         {all(wants(2), isReady(2)), ready, yes, clusterv1.ProvisionedReason, ""},
		"one is not":    {all(wants(2), isReady(1)), ready, no, infrav1.HostMachinePoolProvisioningReason, "1 of 2 machines ready"},
		"being deleted": {all(members("a", "b"), isReady(2), deleted), ready, no, clusterv1.DeletingReason, "2 machines still to be released"},
		"the first problem, of the one that is furthest from running": {all(members("a", "b", "c"), wants(3), func(s *scope) {
			saying(&s.hostMachines[0], ready, no, "node")
			saying(&s.hostMachines[1], infrav1.BootstrapSucceededCondition, no, "bootstrap")
			saying(&s.hostMachines[2], infrav1.HostClaimedCondition, no, "no host")
		}), ready, no, infrav1.HostMachinePoolProvisioningReason, "0 of 3 machines ready; c: no host"},
		"the first that has a message": {all(members("a", "b"), wants(2), func(s *scope) {
			saying(&s.hostMachines[0], infrav1.HostClaimedCondition, no, "")
			saying(&s.hostMachines[1], infrav1.HostClaimedCondition, no, "no host")
		}), ready, no, infrav1.HostMachinePoolProvisioningReason, "0 of 2 machines ready; b: no host"},
		"what is true is no problem": {all(members("a"), wants(1), func(s *scope) {
			saying(&s.hostMachines[0], infrav1.HostClaimedCondition, yes, "Host h")
		}), ready, no, infrav1.HostMachinePoolProvisioningReason, "0 of 1 machines ready"},
		"the revision is not known": {all(members("a"), wants(1), func(s *scope) {
			s.unknown = "no Secret"
			saying(&s.hostMachines[0], infrav1.HostClaimedCondition, no, "no host")
		}), ready, no, infrav1.HostMachinePoolProvisioningReason, "0 of 1 machines ready; no Secret"},

		"no rollout": {func(*scope) {}, rolling, no, clusterv1.NotRollingOutReason, ""},
		"a rollout": {func(s *scope) {
			s.plan.Outdated, s.plan.Differences, s.plan.Holds = 2, []string{"2 of another version"}, []string{"waits for a"}
		}, rolling, yes, clusterv1.RollingOutReason, "Rolling out 2 not up-to-date machines\n* 2 of another version\n* waits for a"},
		"a paused rollout": {func(s *scope) {
			s.plan.Outdated, s.plan.Pause, s.plan.Differences = 1, pool.Pause{Reason: "Stalled", Message: "why"}, []string{"1 of another version"}
		}, rolling, yes, "Stalled", "Rolling out 1 not up-to-date machines\n* why\n* 1 of another version"},

		"as many hosts as wanted":          {all(members("a", "b"), wants(2)), up, no, clusterv1.NotScalingUpReason, ""},
		"a member without a host":          {all(members("a", "b", ""), wants(3)), up, yes, clusterv1.ScalingUpReason, "Scaling up from 2 to 3 machines"},
		"a member that is leaving":         {all(members("a", "b"), wants(2), func(s *scope) { s.hostMachines[0].DeletionTimestamp = ptr.To(metav1.Now()) }), up, yes, clusterv1.ScalingUpReason, "Scaling up from 1 to 2 machines"},
		"a member that says why it waits":  {all(members(""), wants(1), func(s *scope) { saying(&s.hostMachines[0], infrav1.HostClaimedCondition, no, "no host") }), up, yes, clusterv1.ScalingUpReason, "Scaling up from 0 to 1 machines; : no host"},
		"no more machines than are wanted": {all(members("a", "b"), wants(2)), down, no, clusterv1.NotScalingDownReason, ""},
		"more machines than are wanted":    {all(members("a", "b", "c"), wants(1)), down, yes, clusterv1.ScalingDownReason, "Scaling down from 3 to 1 machines"},

		"no machines":                 {func(*scope) {}, machinesReady, yes, clusterv1.NoReplicasReason, ""},
		"no Machines of members":      {members("a"), machinesReady, unknown, clusterv1.ReadyUnknownReason, "Waiting for Cluster API to make the Machines"},
		"Machines that are ready":     {all(machine(yes), machine(yes)), machinesReady, yes, clusterv1.ReadyReason, "* Machines a, a: of the Machine"},
		"a Machine that is not ready": {all(members("a"), machine(yes), machine(no)), machinesReady, no, clusterv1.NotReadyReason, "* Machine a: of the Machine"},
		"a Machine that says nothing": {machine(""), machinesReady, unknown, clusterv1.ReadyUnknownReason, "* Machine a: Condition Ready not yet reported"},

		"up to date":           {members("a"), current, yes, clusterv1.UpToDateReason, ""},
		"nobody is up to date": {func(s *scope) { s.unknown = "no Secret" }, current, yes, clusterv1.NoReplicasReason, ""},
		"not known":            {all(members("a"), func(s *scope) { s.unknown = "no Secret" }), current, unknown, clusterv1.UpToDateUnknownReason, "no Secret"},
		"outdated":             {all(members("a"), func(s *scope) { s.plan.Differences = []string{"1 of another version", "1 of another revision"} }), current, no, clusterv1.NotUpToDateReason, "* 1 of another version\n* 1 of another revision"},
	} {
		t.Run(name, func(t *testing.T) {
			s := testScope(testPool())
			tc.change(s)
			setConditions(s, false)
			got := conditions.Get(s.pool, tc.kind)
			if got.Status != tc.status || got.Reason != tc.reason || got.Message != tc.message {
				t.Errorf("%s = %s, %s: %q; want %s, %s: %q", tc.kind, got.Status, got.Reason, got.Message, tc.status, tc.reason, tc.message)
			}
		})
	}
}

// The begin, the end and a pause of a rollout each make one event; the metrics are those of the plan.
func TestEventsOfARollout(t *testing.T) {
	pause := pool.Pause{Reason: "Stalled", Message: "why"}
	for name, tc := range map[string]struct {
		was  string
		plan pool.Plan
		want string
	}{
		"none":               {was: clusterv1.NotRollingOutReason},
		"a new pool":         {},
		"it begins":          {was: clusterv1.NotRollingOutReason, plan: pool.Plan{Outdated: 1}, want: "Normal RollingOut Rolling out 1 not up-to-date machines"},
		"it goes on":         {was: clusterv1.RollingOutReason, plan: pool.Plan{Outdated: 1}},
		"it pauses":          {was: clusterv1.RollingOutReason, plan: pool.Plan{Outdated: 1, Pause: pause}, want: "Warning Stalled Rolling out 1 not up-to-date machines\n* why"},
		"it pauses still":    {was: "Stalled", plan: pool.Plan{Outdated: 1, Pause: pause}},
		"it is resumed":      {was: "Stalled", plan: pool.Plan{Outdated: 1}, want: "Normal RollingOut Rolling out 1 not up-to-date machines"},
		"it ends":            {was: clusterv1.RollingOutReason, want: "Normal RolledOut Every machine has version v1.36.3 and revision r7"},
		"it ends in a pause": {was: "Stalled", want: "Normal RolledOut Every machine has version v1.36.3 and revision r7"},
	} {
		t.Run(name, func(t *testing.T) {
			s := testScope(testPool())
			s.machinePool.Spec.Template.Spec.Version, s.revision, s.wasRollingOut, s.plan = "v1.36.3", "r7", tc.was, tc.plan
			setConditions(s, false)
			recorder := events.NewFakeRecorder(2)
			outdatedGauge.Reset()
			(&Reconciler{Recorder: recorder}).reportRollout(s)
			got := ""
			if len(recorder.Events) > 0 {
				got = <-recorder.Events
			}
			if got != tc.want || len(recorder.Events) > 0 {
				t.Errorf("event %q, want %q; %d more", got, tc.want, len(recorder.Events))
			}
			if n := testutil.ToFloat64(outdatedGauge); n != float64(tc.plan.Outdated) {
				t.Errorf("%v outdated members by the metric", n)
			}
		})
	}
}
