package agentrelease_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// One host goes first, then one failure domain after the other. Each host is written once,
// the release only when its status changes, and nothing at rest.
func TestRollout(t *testing.T) {
	w := newWorld(t)
	counted := &testenv.Crash{}
	w.restart(testenv.NewCrashing(managed, counted), w.Version)
	w.hosts("a", 8)
	w.hosts("b", 2)
	for _, step := range []struct {
		asked, domain string
		updated       int32
		event         string
	}{
		{"a-0", "a", 0, "Failure domain a goes now; waiting for " + w.namespace + "/a-0."},
		{"a-0 a-1 a-2", "a", 1, ""},
		{"a-0 a-1 a-2 a-3 a-4", "a", 3, ""},
		{"a-0 a-1 a-2 a-3 a-4 a-5 a-6", "a", 5, ""},
		{"a-0 a-1 a-2 a-3 a-4 a-5 a-6 a-7", "a", 7, ""},
		{"a-0 a-1 a-2 a-3 a-4 a-5 a-6 a-7 b-0", "b", 8, "Failure domain b goes now"},
		{"a-0 a-1 a-2 a-3 a-4 a-5 a-6 a-7 b-0 b-1", "b", 9, ""},
	} {
		w.reconcile()
		if got := w.asked(digest); got != step.asked {
			t.Fatalf("asked %q, want %q", got, step.asked)
		}
		w.wants(infrav1.AgentReleaseRollingOutReason, 10, step.updated, 0)
		if domain := w.release().Status.FailureDomain; domain != step.domain {
			t.Errorf("failure domain %q, want %q", domain, step.domain)
		}
		switch told := w.told(); {
		case step.event == "" && len(told) == 0:
		case step.event == "" || len(told) != 1 || !strings.HasPrefix(told[0], "Normal RollingOut ") || !strings.Contains(told[0], step.event):
			t.Errorf("events %q, want %q", told, step.event)
		}
		before := counted.Writes()
		w.reconcile()
		if n := counted.Writes() - before; n > 0 {
			t.Errorf("%d writes at rest", n)
		}
		w.update("")
	}
	w.reconcile()
	w.wants(infrav1.AgentReleaseRolledOutReason, 10, 10, 0)
	if told := w.told(); len(told) != 1 || !strings.HasPrefix(told[0], "Normal RolledOut ") {
		t.Errorf("events %q", told)
	}
	// ten hosts, and eight times the status
	if n := counted.Writes(); n != 18 {
		t.Errorf("%d writes for 10 hosts, want 18", n)
	}
	if domain := w.release().Status.FailureDomain; domain != "" {
		t.Errorf("failure domain %q goes after the end", domain)
	}
}

// A failure ends the rollout, with a Warning that says of whom; a mended bundle, or the end
// of the host, goes on.
func TestHaltAndGoOn(t *testing.T) {
	for name, mend := range map[string]func(w *world){
		"the bundle is loaded anew": func(w *world) {
			release := w.release()
			release.Spec.Digest = mended
			if err := env.Client.Update(t.Context(), release); err != nil {
				t.Fatal(err)
			}
		},
		"the host is deleted": func(w *world) {
			if err := env.Client.Delete(t.Context(), w.agents[0].Host(t)); err != nil {
				t.Fatal(err)
			}
			w.agents = w.agents[1:]
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.hosts("a", 4)
			w.reconcile()
			w.told()
			w.update("a-0")
			w.reconcile()
			w.reconcile()
			w.wants(infrav1.AgentReleaseHaltedReason, 4, 0, 1)
			if got := w.asked(digest); got != "a-0" {
				t.Errorf("asked %q after a failure", got)
			}
			told := w.told()
			if len(told) != 1 || !strings.HasPrefix(told[0], "Warning Halted Host "+w.namespace+"/a-0 went back to v0.9.0 (no word of it) after it tried "+w.Version) || !strings.Contains(told[0], "load a mended release") {
				t.Errorf("events %q", told)
			}
			w.hosts("b", 1)
			w.reconcile()
			w.wants(infrav1.AgentReleaseHaltedReason, 5, 0, 1)
			if told := w.told(); len(told) > 0 {
				t.Errorf("it is told again: %q", told)
			}
			mend(w)
			for range 12 {
				w.reconcile()
				w.update("")
			}
			w.wants(infrav1.AgentReleaseRolledOutReason, int32(len(w.agents)), int32(len(w.agents)), 0)
			if got := len(strings.Fields(w.asked(w.release().Spec.Digest))); got != len(w.agents) {
				t.Errorf("%d of %d hosts were asked", got, len(w.agents))
			}
		})
	}
}

func TestPaused(t *testing.T) {
	w := newWorld(t)
	w.hosts("a", 2)
	release := w.release()
	release.Spec.Paused = ptr.To(true)
	if err := env.Client.Update(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	w.wants(infrav1.AgentReleasePausedReason, 2, 0, 0)
	if got := w.asked(digest); got != "" {
		t.Errorf("asked %q", got)
	}
}

// The release of another version is left alone, and says so.
func TestOtherVersions(t *testing.T) {
	w := newWorld(t)
	w.hosts("a", 1)
	w.reconcile()
	release := client.ObjectKey{Name: w.Version}
	w.restart(managed, "v2.0.0")
	if _, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: release}); err != nil {
		t.Fatal(err)
	}
	w.Version = release.Name
	if got := w.measured(); got != "" {
		t.Errorf("metrics %q of a release that is not rolled out", got)
	}
	s := w.release().Status
	if !conditions.IsFalse(w.release(), infrav1.AgentReleaseRolledOutCondition) || conditions.GetReason(w.release(), infrav1.AgentReleaseRolledOutCondition) != infrav1.AgentReleaseNotOfManagerReason {
		t.Errorf("conditions %+v", s.Conditions)
	}
	if s.Hosts != nil || s.Updated != nil || s.Failed != nil || s.FailureDomain != "" {
		t.Errorf("a release that is not rolled out counts hosts: %+v", s)
	}
	// Deleted, it takes nothing back.
	w.reconcile()
	if w.measured() == "" {
		t.Error("no metrics of the release that is rolled out")
	}
	if err := env.Client.Delete(t.Context(), w.release()); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	if got := w.asked(digest); got != "a-0" {
		t.Errorf("asked %q once the release is gone", got)
	}
	if got := w.measured(); got != "" {
		t.Errorf("metrics %q of a release that is gone", got)
	}
}

// Hosts of other managers are neither counted nor asked.
func TestOnlyItsOwnHosts(t *testing.T) {
	w := newWorld(t)
	w.hosts("a", 2)
	other := newWorld(t)
	other.hosts("b", 2)
	mine := w.agents[1].Host(t)
	mine.Labels = map[string]string{clusterv1.WatchLabel: "mine"}
	if err := env.Client.Update(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	w.WatchFilter = "mine"
	w.reconcile()
	w.wants(infrav1.AgentReleaseRollingOutReason, 1, 0, 0)
	if got := w.asked(digest); got != "a-1" {
		t.Errorf("asked %q", got)
	}
	for _, agent := range other.agents {
		if h := agent.Host(t); h.Spec.Agent != nil {
			t.Errorf("Host %s of another namespace is asked for %+v", h.Name, h.Spec.Agent)
		}
	}
}

// lagging has a cache of Hosts that stands still, and a status of its own.
type lagging struct {
	client.WithWatch
	hosts *infrav1.HostList
	// fail is returned by the writes of Hosts, which take effect all the same.
	fail error
}

func (c *lagging) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if hosts, ok := list.(*infrav1.HostList); ok && c.hosts != nil {
		c.hosts.DeepCopyInto(hosts)
		return nil
	}
	return c.WithWatch.List(ctx, list, options...)
}

func (c *lagging) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	return errors.Join(c.WithWatch.Patch(ctx, o, patch, options...), c.fail)
}

// stop has the cache stand still.
func (c *lagging) stop(t *testing.T, namespace string) {
	t.Helper()
	c.hosts = &infrav1.HostList{}
	if err := env.Client.List(t.Context(), c.hosts, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
}

// lose has the cache stand still at a moment at which some hosts were away: who looks there
// alone asks others instead of them.
func (c *lagging) lose(names ...string) {
	for i := range c.hosts.Items {
		if slices.Contains(names, c.hosts.Items[i].Name) {
			c.hosts.Items[i].Status.Conditions = nil
		}
	}
}

// What was asked counts, whether or not the cache shows it: by this process, by one before,
// and by a write of which nobody knows the outcome.
func TestCacheLagsBehind(t *testing.T) {
	c := &lagging{WithWatch: managed}
	w := newWorld(t)
	w.restart(c, w.Version)
	w.hosts("a", 8)
	w.reconcile()
	w.update("")
	c.stop(t, w.namespace)
	again := func(want string) ctrl.Result {
		t.Helper()
		result := w.reconcile()
		if got := w.asked(digest); got != want {
			t.Fatalf("asked %q, want %q", got, want)
		}
		return result
	}
	again("a-0 a-1 a-2")
	if result := again("a-0 a-1 a-2"); result.RequeueAfter != 0 {
		t.Errorf("looks again after %s", result.RequeueAfter)
	}
	c.lose("a-1", "a-2")
	w.restart(c, w.Version)
	if result := again("a-0 a-1 a-2"); result.RequeueAfter == 0 {
		t.Error("a new manager does not look again, while its cache lags behind")
	}
	c.hosts = nil
	again("a-0 a-1 a-2")
	w.update("")
	// The write takes effect, and its answer is lost.
	c.stop(t, w.namespace)
	c.fail = errors.New("no answer")
	if _, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: w.Version}}); !errors.Is(err, c.fail) {
		t.Fatalf("error %v", err)
	}
	c.fail = nil
	c.lose("a-3", "a-4")
	again("a-0 a-1 a-2 a-3")
	c.hosts = nil
	again("a-0 a-1 a-2 a-3 a-4")
	// What the cache has shown counts, not what was written once: somebody took an order back.
	h := w.agents[4].Host(t)
	h.Spec.Agent = nil
	if err := env.Client.Update(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	again("a-0 a-1 a-2 a-3 a-4")
}

// A host that somebody changed meanwhile is looked at again before it is asked.
func TestConflict(t *testing.T) {
	c := &lagging{WithWatch: managed}
	w := newWorld(t)
	w.restart(c, w.Version)
	w.hosts("a", 1)
	c.stop(t, w.namespace)
	w.agents[0].Report(t, func(s *infrav1.HostStatus) { s.Software.AgentManagement = infrav1.HostSoftwareProvided })
	if result := w.reconcile(); result.RequeueAfter == 0 || w.asked(digest) != "" {
		t.Errorf("%+v, and asked %q", result, w.asked(digest))
	}
	c.hosts = nil
	w.reconcile()
	w.wants(infrav1.AgentReleaseRolledOutReason, 0, 0, 0)
}

// A cache that lags behind makes no second event, and no second write of the status.
func TestStatusIsWrittenOnce(t *testing.T) {
	w := newWorld(t)
	w.hosts("a", 2)
	before := w.release()
	counted := &testenv.Crash{}
	frozen := interceptor.NewClient(testenv.NewCrashing(managed, counted), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if release, ok := o.(*infrav1.AgentRelease); ok {
				before.DeepCopyInto(release)
				return nil
			}
			return c.Get(ctx, key, o, options...)
		},
	})
	w.restart(frozen, w.Version)
	w.reconcile()
	w.update("a-0")
	w.told()
	writes := counted.Writes()
	for range 3 {
		w.reconcile()
	}
	if told := w.told(); len(told) != 1 || counted.Writes() != writes+1 {
		t.Errorf("%d writes, events %q", counted.Writes()-writes, told)
	}
	w.wants(infrav1.AgentReleaseHaltedReason, 2, 0, 1)
}

// A manager that is killed at any write goes on where it was.
func TestKilledAtEachWrite(t *testing.T) {
	testenv.KilledAtEachWrite(t, 8, func(t *testing.T, crash *testenv.Crash) {
		w := newWorld(t)
		w.hosts("a", 3)
		w.hosts("b", 1)
		c := testenv.NewCrashing(managed, crash)
		w.restart(c, w.Version)
		dead := crash
		for rounds := 0; ; rounds++ {
			_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: w.Version}})
			switch {
			case dead != nil && dead.Crashed():
				w.restart(managed, w.Version)
				dead = nil
				continue
			case err != nil && !apierrors.IsConflict(err):
				t.Fatal(err)
			}
			// at most one at once of so few
			if n := w.update(""); n > 1 {
				t.Fatalf("%d hosts update at once", n)
			}
			if conditions.IsTrue(w.release(), infrav1.AgentReleaseRolledOutCondition) && *w.release().Status.Updated == 4 {
				break
			}
			if rounds > 1000 {
				t.Fatalf("it does not end: %+v", w.release().Status)
			}
		}
		for _, agent := range w.agents {
			if h := agent.Host(t); h.Spec.Agent == nil || h.Generation > 2 {
				t.Errorf("Host %s was written %d times", h.Name, h.Generation-1)
			}
		}
	})
}
