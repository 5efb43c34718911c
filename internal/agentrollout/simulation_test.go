package agentrollout_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agentrollout"
	"github.com/slipway-dev/slipway/internal/host"
)

// world plays agents, power cuts and the people around a rollout, in a random order.
type world struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	r      agentrollout.Rollout
	made   int
	// bad is one in how many trials fails; 0 for none.
	bad int
	// times counts how often a host was asked for a digest.
	times map[string]int
	log   []string
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 11)), r: rollout(), times: map[string]int{}}
	w.bad = []int{0, 0, 4, 40}[w.random.IntN(4)]
	for range 1 + w.random.IntN(60) {
		w.add()
	}
	return w
}

func (w *world) one(in int) bool { return in > 0 && w.random.IntN(in) == 0 }

func (w *world) failf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d: %s\n%s", w.seed, fmt.Sprintf(format, args...), strings.Join(w.log[max(0, len(w.log)-30):], "\n"))
}

func (w *world) logf(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) add() {
	w.made++
	h := at([]string{"", "a", "b", "c", "d"}[w.random.IntN(5)], fmt.Sprintf("h%d", w.made))
	h.Claimed, h.Busy, h.Connected, h.Approved, h.Managed = w.one(2), w.one(5), !w.one(8), !w.one(20), !w.one(20)
	if h.Claimed && w.one(3) {
		controlPlane(fmt.Sprintf("c%d", w.random.IntN(4)))(&h)
	}
	if w.one(30) {
		runs(&h)
	}
	w.r.Hosts = append(w.r.Hosts, h)
}

func (w *world) wanted() infrav1.HostAgentSpec {
	return infrav1.HostAgentSpec{Version: current, ReleaseDigest: w.r.Release.Digest}
}

// reconcile carries out a plan, or only its first steps, and holds it to what it promises.
func (w *world) reconcile(complete bool) agentrollout.Plan {
	w.t.Helper()
	w.random.Shuffle(len(w.r.Hosts), func(i, j int) { w.r.Hosts[i], w.r.Hosts[j] = w.r.Hosts[j], w.r.Hosts[i] })
	plan := agentrollout.Make(w.r)
	w.random.Shuffle(len(w.r.Hosts), func(i, j int) { w.r.Hosts[i], w.r.Hosts[j] = w.r.Hosts[j], w.r.Hosts[i] })
	if again := agentrollout.Make(w.r); !reflect.DeepEqual(plan, again) {
		w.failf("the order of hosts counts:\n%+v\n%+v", plan, again)
	}
	w.judgeCounts(plan)
	n := len(plan.Ask)
	if !complete && n > 0 {
		n = w.random.IntN(n + 1)
	}
	for _, key := range plan.Ask[:n] {
		w.ask(key)
	}
	if len(plan.Ask) == n {
		if again := agentrollout.Make(w.r); len(again.Ask) > 0 {
			w.failf("a plan that was carried out asks %v, then %v", plan.Ask, again.Ask)
		}
	}
	return plan
}

func (w *world) judgeCounts(plan agentrollout.Plan) {
	w.t.Helper()
	var hosts, updated, failed int32
	for _, h := range w.r.Hosts {
		if !h.Managed {
			continue
		}
		hosts++
		switch h.Agent.State(w.wanted()) {
		case host.AgentUpdated:
			updated++
		case host.AgentUpdateFailed:
			failed++
		default:
		}
	}
	if plan.Hosts != hosts || plan.Updated != updated || plan.Failed != failed {
		w.failf("counts %d, %d, %d; want %d, %d, %d", plan.Hosts, plan.Updated, plan.Failed, hosts, updated, failed)
	}
	if done := plan.Condition.Reason == infrav1.AgentReleaseRolledOutReason; done != (hosts == updated) {
		w.failf("%d of %d, and %s", updated, hosts, plan.Condition.Reason)
	}
	if halted := plan.Condition.Reason == infrav1.AgentReleaseHaltedReason; halted != (failed > 0) {
		w.failf("%d failed, and %s", failed, plan.Condition.Reason)
	}
}

// ask asks one host, and judges that it may be asked.
func (w *world) ask(key types.NamespacedName) {
	w.t.Helper()
	i := slices.IndexFunc(w.r.Hosts, func(h agentrollout.Host) bool { return h.Key == key })
	h := &w.r.Hosts[i]
	w.logf("ask %s of %q", key.Name, h.Domain)
	if !h.Connected || !h.Approved || h.Paused || !h.Managed {
		w.failf("%+v cannot be asked", *h)
	}
	if ptr.Deref(w.r.Release.Paused, false) {
		w.failf("%s is asked while the rollout is paused", key.Name)
	}
	id := key.Name + w.r.Release.Digest
	if w.times[id]++; w.times[id] > 1 {
		w.failf("%s is asked twice", key.Name)
	}
	members, updating, lost, proven := 0, 1, 0, 0
	for _, other := range w.r.Hosts {
		if !other.Managed || other.Key == key {
			continue
		}
		if other.Domain == h.Domain {
			members++
		}
		switch state := other.Agent.State(w.wanted()); {
		case state == host.AgentUpdateFailed:
			w.failf("%s is asked although %s failed", key.Name, other.Key.Name)
		case state == host.AgentUpdated && other.Agent.Asked == w.wanted():
			proven++
		case state == host.AgentUpdating && other.Connected && other.Domain != h.Domain:
			w.failf("%s of %q is asked while %s of %q updates", key.Name, h.Domain, other.Key.Name, other.Domain)
		case state == host.AgentUpdating && other.Connected:
			updating++
		case state == host.AgentUpdating:
			lost++
		}
		if other.ControlPlane != (types.NamespacedName{}) && other.ControlPlane == h.ControlPlane && other.Agent.State(w.wanted()) == host.AgentUpdating {
			w.failf("%s and %s are of one control plane", key.Name, other.Key.Name)
		}
	}
	most := max(1, min((members+1)/4, 50))
	if proven == 0 {
		most = 1
	}
	if updating > most || lost > max(1, proven/10) {
		w.failf("%d of %d hosts of %q update, %d are lost, %d are proven", updating, members+1, h.Domain, lost, proven)
	}
	h.Agent.Asked = w.wanted()
}

// settle has an agent that was asked come a step further, if there is one.
func (w *world) settle() {
	var updating []*agentrollout.Host
	for i := range w.r.Hosts {
		if h := &w.r.Hosts[i]; h.Agent.State(w.wanted()) == host.AgentUpdating {
			updating = append(updating, h)
		}
	}
	if len(updating) > 0 {
		w.update(updating[w.random.IntN(len(updating))])
	}
}

// play is one event at one host.
func (w *world) play() {
	if len(w.r.Hosts) == 0 {
		w.add()
	}
	h := &w.r.Hosts[w.random.IntN(len(w.r.Hosts))]
	if h.Connected && h.Agent.Asked == w.wanted() && w.one(2) {
		w.update(h)
		return
	}
	switch w.random.IntN(24) {
	case 0, 1:
		h.Connected = false
		w.logf("%s is away", h.Key.Name)
	case 2, 3, 4, 5, 6:
		h.Connected = true
		w.logf("%s is back", h.Key.Name)
	case 7:
		h.Approved = !h.Approved || !w.one(10)
	case 8:
		h.Paused = !h.Paused && w.one(4)
	case 9:
		h.Busy = !h.Busy
	case 10:
		if w.one(4) {
			w.add()
		}
	case 11:
		if w.one(8) {
			w.logf("%s is deleted", h.Key.Name)
			w.r.Hosts = slices.DeleteFunc(w.r.Hosts, func(o agentrollout.Host) bool { return o.Key == h.Key })
		}
	case 12:
		if w.one(8) {
			w.mend()
		}
	case 13:
		w.r.Release.Paused = ptr.To(w.one(4))
	}
}

// update has an agent that was asked come a step further.
func (w *world) update(h *agentrollout.Host) {
	report := &h.Agent.Report
	switch about := h.Agent.ReportOn(w.wanted()); {
	case h.Agent.State(w.wanted()) == host.AgentUpdated, about.State == infrav1.HostAgentUpdateFailed, h.Busy:
	case about.State == "":
		*report = infrav1.HostAgentUpdate{Version: current, ReleaseDigest: w.r.Release.Digest, State: infrav1.HostAgentUpdateFetching}
	case about.State == infrav1.HostAgentUpdateFetching:
		report.State, h.Agent.Version = infrav1.HostAgentUpdateTrying, current
	case w.one(w.bad):
		w.logf("%s fails", h.Key.Name)
		report.State, h.Agent.Version = infrav1.HostAgentUpdateFailed, older
	default:
		w.logf("%s is updated", h.Key.Name)
		*report = infrav1.HostAgentUpdate{}
	}
}

// mend loads the bundle anew.
func (w *world) mend() {
	w.r.Release.Digest += "'"
	w.logf("loaded %s", w.r.Release.Digest)
}

func TestSimulation(t *testing.T) {
	worlds := 100
	if testing.Short() {
		worlds = 25
	}
	done := 0
	for seed := range uint64(worlds) {
		w := newWorld(t, seed)
		for range 300 {
			w.play()
			if w.one(2) {
				w.reconcile(w.one(2))
			}
		}
		// All come back, the bundle is mended, and the rollout ends.
		w.bad, w.r.Release.Paused = 0, nil
		w.mend()
		for i := range w.r.Hosts {
			h := &w.r.Hosts[i]
			h.Connected, h.Approved, h.Paused, h.Busy = true, true, false, false
		}
		for step := 0; ; step++ {
			if w.reconcile(true).Condition.Reason == infrav1.AgentReleaseRolledOutReason {
				break
			}
			if step > 10*len(w.r.Hosts) {
				w.failf("it does not end: %s", agentrollout.Make(w.r).Condition.Message)
			}
			w.settle()
		}
		done += len(w.r.Hosts)
	}
	if done < worlds {
		t.Errorf("%d worlds have but %d hosts", worlds, done)
	}
}

// A rollout that nothing disturbs takes one failure domain after the other, and asks each
// host once.
func TestUndisturbed(t *testing.T) {
	w := newWorld(t, 1)
	w.r.Hosts = slices.Concat(many("a", 9), many("b", 20), many("c", 1), many("", 5))
	w.bad = 0
	var order []string
	for range 1000 {
		plan := w.reconcile(true)
		if plan.Begins {
			order = append(order, plan.Domain)
		}
		if plan.Condition.Reason == infrav1.AgentReleaseRolledOutReason {
			break
		}
		w.settle()
	}
	if !slices.Equal(order, []string{"a", "b", "c", ""}) || len(w.times) != 35 {
		t.Errorf("order %q; %d hosts were asked", order, len(w.times))
	}
}
