package lifecycle

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/testenv/level"
)

// history are steps of every kind. The Job fails at first, and is retried.
func history(t *testing.T, namespace string) []lifecyclev1.Step {
	return []lifecyclev1.Step{
		{Name: "quota", Expression: &lifecyclev1.ExpressionStep{Expression: "clusters.size() <= 3"}},
		{Name: "night", Window: &lifecyclev1.WindowStep{Schedule: "0 * * * *", DurationSeconds: 7200}},
		{Name: "go", Approval: &lifecyclev1.ApprovalStep{}},
		jobStep(t, "check", failsOnce),
		{Name: "change", Webhook: &lifecyclev1.WebhookStep{
			URL: all.server.URL + "/" + namespace, CABundle: string(certificateOf(all.server)), SecretName: "signing",
		}},
		{Name: "addon", Apply: &lifecyclev1.ApplyStep{Sources: []lifecyclev1.ManifestSource{{Kind: "ConfigMap", Name: "addon"}}}},
		{Name: "ready", Wait: &lifecyclev1.WaitStep{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: namespace, Expression: "objects.size() == 1"}},
		{Name: "archive", Export: &lifecyclev1.ExportStep{Resources: []lifecyclev1.ExportResource{{APIVersion: "v1", Kind: "ConfigMap", Namespaces: []string{"default"}}}}},
	}
}

func jobStep(t *testing.T, name, command string) lifecyclev1.Step {
	t.Helper()
	spec, err := json.Marshal(map[string]any{"backoffLimit": 0, "template": corev1.PodTemplateSpec{Spec: podSpec(command)}})
	if err != nil {
		t.Fatal(err)
	}
	return lifecyclev1.Step{Name: name, Job: &lifecyclev1.JobStep{Target: lifecyclev1.TargetManagement, Spec: runtime.RawExtension{Raw: spec}}}
}

// TestKilledAtEveryEffect kills the program right after each of its effects in turn, or
// after a sample of them. The
// process that goes on is killed when its own first effect is on the way, and has not
// happened. The third leads the Cluster to the end.
func TestKilledAtEveryEffect(t *testing.T) {
	level.Deep(t)
	undisturbed := play(t, nil)
	t.Logf("%d effects: %q", len(undisturbed), undisturbed)
	for effect, want := range map[string]int{
		"create lifecycleruns": 2, "create jobs": 2, "patch jobs": 2, "delete jobs": 2, "call webhook": 1, "patch configmaps": 1, "create secrets": 4,
	} {
		if got := count(undisturbed, effect); got != want {
			t.Errorf("%q happened %d times, want %d", effect, got, want)
		}
	}
	for _, n := range level.Cases(len(undisturbed)) {
		t.Run(fmt.Sprintf("%d %s", n, undisturbed[n-1]), func(t *testing.T) {
			t.Parallel()
			play(t, func(life, nth int, _ string) moment {
				switch {
				case life == 1 && nth == n:
					return after
				case life == 2:
					return before
				default:
					return never
				}
			})
		})
	}
}

// play leads a Cluster through the history with a replica that is killed as told, and
// returns what has happened.
func play(t *testing.T, f fault) []string {
	s := newStage(t)
	r := newReplica(t, s.namespace)
	s.createCluster(r)
	r.start()
	s.eventually("the program answers", r.discover)
	s.callWebhooks(r)
	steps := history(t, s.namespace)
	s.createPolicy("all", steps...)
	s.createPolicy("second", steps[0])
	r.arm(f)
	s.upgrade(r)
	if f != nil && r.life.Load() < 2 {
		t.Fatal("the program was not killed")
	}
	s.expectRun("second", 1)
	run := s.expectRun("all", len(steps))
	s.expectJobs(run.Name+"-check", run.Name+"-check-r1")
	s.expectOneDelivery(int(r.life.Load()))
	addon := &corev1.ConfigMap{}
	if err := all.workload.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: s.namespace}, addon); err != nil || addon.Data["by"] != "policy" {
		t.Errorf("the add-on: %v, %v", addon.Data, err)
	}
	return r.happened()
}

// expectOneDelivery fails unless all calls of the webhook are the same one to its
// receiver, and not more than a kill explains.
func (s *stage) expectOneDelivery(lives int) {
	s.t.Helper()
	calls, err := all.received(s.namespace)
	if err != nil {
		s.t.Error(err)
	}
	if len(slices.Compact(slices.Clone(calls))) != 1 || calls[0].id == "" || len(calls) > lives {
		s.t.Errorf("%d calls in %d lives: %+v", len(calls), lives, calls)
	}
}

func count(of []string, what string) int {
	n := 0
	for _, s := range of {
		if s == what {
			n++
		}
	}
	return n
}

// TestLeaderKilledInMidJob kills the leader when it has let a Job run. The other
// replica takes over, and the leader does not come back.
func TestLeaderKilledInMidJob(t *testing.T) {
	level.Deep(t)
	t.Parallel()
	s := newStage(t)
	if err := grant(t.Context(), s, s.namespace, "leader_election.yaml"); err != nil {
		t.Fatal(err)
	}
	flags := []string{
		"--leader-elect", "--leader-election-namespace=" + s.namespace, "--leader-elect-lease-duration=3s",
		"--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=200ms",
	}
	leader, other := newReplica(t, s.namespace, flags...), newReplica(t, s.namespace, flags...)
	s.createCluster(other)
	leader.start()
	s.eventually("the first one leads", func() error {
		return s.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "slipway-lifecycle-leader-election"}, &coordinationv1.Lease{})
	})
	other.start()
	s.eventually("the other one answers", other.discover)
	s.callWebhooks(other)
	s.createPolicy("all", jobStep(t, "check", "true"), history(t, s.namespace)[0])
	leader.arm(func(_, _ int, effect string) moment {
		if effect == "patch jobs" {
			return after
		}
		return never
	})
	other.arm(nil)
	s.upgrade(other)
	run := s.expectRun("all", 2)
	s.expectJobs(run.Name + "-check")
	if did := leader.happened(); !leader.killed() || count(did, "create jobs") != 1 {
		t.Errorf("the leader did %q", did)
	}
	if did := other.happened(); count(did, "create lifecycleruns") != 1 || count(did, "create jobs") != 0 || count(did, "delete jobs") != 1 {
		t.Errorf("the other one did %q", did)
	}
}
