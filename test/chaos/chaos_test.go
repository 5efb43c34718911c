package chaos

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/chaos/judge"
)

var (
	seed     = flag.Uint64("seed", uint64(time.Now().Unix()), "seed of the faults")
	duration = flag.Duration("duration", 0, "how long faults are injected; 0 leaves the live plane out")
	without  = flag.String("without", "", "leave out the fault of this name, which makes another schedule of the seed; that of the plane's death keeps its process alive")
	file     = flag.String("history", "", "judge this file, which a failed run left behind, instead of a live plane")
)

const (
	// faultsPerRound between two convergences.
	faultsPerRound = 8
	// convergence is what a round takes at most on a machine with nothing else to do. Where
	// it takes longer, all else may, too.
	convergence = 4 * time.Minute
	// stable is how long a plane stays converged until it counts.
	stable = 3 * time.Second
	// settled is how old entries are before they are judged during a run: by then all
	// watches have shown them.
	settled = 10 * time.Second
)

// run is one run of the suite.
type run struct {
	t     *testing.T
	plane *plane
	plan  *Plan
	log   Log
	// end is when a wait gives up.
	end time.Time
	// now knows the plane as it is, live judges what all watches have shown.
	now, live *judge.Judge
	// shown and judged are how many entries they have seen.
	shown, judged int
	done          []Step
	// longest is how long a convergence took, that which goes on included.
	longest time.Duration
	rounds  int
	weights []memory
}

func newRun(t *testing.T, p *plane) *run {
	t.Helper()
	r := &run{t: t, plane: p, end: time.Now().Add(poll.Limit())}
	r.plan = NewPlan(*seed, kinds(*without), begin())
	r.now, r.live = judge.New(r.limits()), judge.New(r.limits())
	return r
}

func TestChaos(t *testing.T) {
	if *duration == 0 {
		t.Skip("takes long; run it with `make chaos`")
	}
	if *without != "" && !slices.ContainsFunc(faults, func(f fault) bool { return f.Name == *without }) {
		t.Fatalf("-without %q names no fault", *without)
	}
	t.Logf("seed %d for %s; to repeat it: make chaos SEED=%d DURATION=%s%s", *seed, *duration, *seed, *duration, leftOut())
	r := newRun(t, newPlane(t))
	// What does not converge in as much time again never will.
	if end := time.Now().Add(2**duration + patience); end.Before(r.end) {
		r.end = end
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.start(ctx)
	r.first(ctx)
	for began := time.Now(); time.Since(began) < *duration && !t.Failed(); {
		r.round(ctx)
	}
	if !t.Failed() {
		r.release(ctx)
	}
	if !t.Failed() {
		r.judgeAll(r.log.Entries())
	}
	r.notef("seed %d: %d faults in %d rounds, %d versions of objects; converged within %s: %s", *seed, faultsIn(r.done), r.rounds,
		len(r.log.Entries()), r.longest.Round(time.Second), count(r.done))
}

// TestHistory judges what a run left behind.
func TestHistory(t *testing.T) {
	if *file == "" {
		t.Skip("-history names no file")
	}
	f, err := os.Open(*file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	entries, err := judge.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	newRun(t, nil).judgeAll(entries)
}

// limits grow with what the machine takes to converge.
func (r *run) limits() judge.Limits {
	slow := max(0, r.longest-convergence)
	return judge.Limits{NodeAbsent: 90*time.Second + slow, NodeNotReady: 6*time.Minute + slow, Lag: settled}
}

// start brings up the plane with its first cluster, and has all of it written down.
func (r *run) start(ctx context.Context) {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(path, []byte(cluster("local", "10.88.0.200", firstWorkers)), 0o600); err != nil {
		r.t.Fatal(err)
	}
	began := time.Now()
	if err := r.plane.up(ctx, "-f", path); err != nil {
		r.t.Fatal(err)
	}
	r.notef("slipway up: %.1fs", time.Since(began).Seconds())
	var err error
	if r.plane.client, err = r.plane.connect(ctx, judge.Management); err != nil {
		r.t.Fatal(err)
	}
	for _, resource := range watched {
		go Follow(ctx, &r.log, judge.Management, resource, func(context.Context) (dynamic.Interface, error) { return r.plane.client, nil })
	}
	r.follow(ctx, "local")
}

// follow writes down the Nodes of a workload cluster, until its Cluster is gone. Its
// address may be another one when the plane is started again.
func (r *run) follow(ctx context.Context, name string) {
	go Follow(ctx, &r.log, name, nodeResource, func(ctx context.Context) (dynamic.Interface, error) {
		c, err := r.plane.connect(ctx, name)
		if err == nil {
			return c, nil
		}
		_, getErr := r.plane.client.Resource(clusterResource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(getErr) {
			return nil, ErrGone
		}
		return nil, err
	})
}

// first converges with what `up` made, and after a scale-up.
func (r *run) first(ctx context.Context) {
	r.t.Helper()
	r.converge(ctx)
	r.plan.State.Pool++
	step := Step{Name: faults[0].Name, Arguments: Arguments{Value: r.plan.State.Pool}}
	if err := faults[0].apply(ctx, r.plane, step); err != nil {
		r.t.Fatal(err)
	}
	r.converge(ctx)
	r.longest = 0
	r.weigh(ctx)
}

// round injects faults, undoes them, and waits until all is as it was asked for.
func (r *run) round(ctx context.Context) {
	r.rounds++
	for _, s := range r.plan.Round(faultsPerRound) {
		if r.t.Failed() {
			return
		}
		time.Sleep(s.After)
		r.step(ctx, s)
	}
	r.judgeSettled()
	if !r.t.Failed() {
		r.converge(ctx)
		r.weigh(ctx)
	}
}

// pause between two tries of an effect: an API server that was just started refuses one now
// and then.
const pause = 3 * time.Second

func (r *run) step(ctx context.Context, s Step) {
	r.notef("%s", s)
	r.done = append(r.done, s)
	verb, act := judge.Injected, faults[s.Kind].apply
	if s.Undo {
		verb, act = judge.Undone, faults[s.Kind].undo
	}
	r.log.Add(judge.Entry{Verb: verb, Text: s.Name + " " + s.Host})
	err := act(ctx, r.plane, s)
	for err != nil && time.Now().Before(r.end) {
		r.notef("try again after: %v", err)
		time.Sleep(pause)
		err = act(ctx, r.plane, s)
	}
	if err != nil {
		r.fail(fmt.Sprintf("cannot inject or undo a fault: %s: %v", s, err), judge.Entry{}, nil)
	}
	if !s.Undo && s.Name == createSecond {
		r.follow(ctx, second(s.Value))
	}
	r.judgeSettled()
}

// want is what the plan asked for.
func (r *run) want() judge.Want {
	s := r.plan.State
	want := judge.Want{Hosts: r.plane.hosts, Clusters: map[string]judge.Workers{"local": {Pool: int32(s.Pool), Deployment: int32(s.Deployment)}}}
	if s.Second > 0 {
		want.Clusters[second(s.Second)] = judge.Workers{}
	}
	return want
}

// converge waits until nothing is missing for a while, as long as the run lasts.
func (r *run) converge(ctx context.Context) {
	began, since := time.Now(), time.Time{}
	enrolled, told := began, began
	for {
		missing := append(r.missing(), r.sweep(ctx)...)
		if len(missing) > 0 && time.Since(told) > 30*time.Second {
			told = time.Now()
			r.notef("still missing: %s", strings.Join(missing, "; "))
		}
		switch {
		case len(missing) > 0:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= stable:
			took := since.Sub(began)
			r.longest = max(r.longest, took)
			r.notef("converged after %.1fs", took.Seconds())
			return
		}
		r.longest = max(r.longest, time.Since(began))
		if time.Now().After(r.end) {
			r.fail(fmt.Sprintf("not converged when the run ends, after %s:\n  %s", time.Since(began).Round(time.Second), strings.Join(missing, "\n  ")),
				judge.Entry{Seen: began}, nil)
			return
		}
		// A Host that was deleted goes with its machine, at any time: an operator enrolls it again.
		if time.Since(enrolled) > 20*time.Second && r.now.Hosts() < r.plane.hosts {
			if err := r.plane.up(ctx, "--no-cluster"); err != nil {
				r.fail(err.Error(), judge.Entry{}, nil)
				return
			}
			enrolled = time.Now()
		}
		r.judgeSettled()
		if r.t.Failed() {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// missing is what is not yet as it was asked for.
func (r *run) missing() []string {
	fresh := r.log.Since(r.shown)
	r.shown += len(fresh)
	for _, e := range fresh {
		// Watches of several kinds are not in order: what this judge finds means nothing.
		if _, err := r.now.Observe(e); err != nil {
			r.fail(err.Error(), judge.Entry{}, nil)
		}
	}
	return r.now.Missing(r.want())
}

// judgeSettled judges what all watches have shown by now. One of them may lag more than
// that: the whole history decides.
func (r *run) judgeSettled() {
	fresh := r.log.Since(r.judged)
	for len(fresh) > 0 && time.Since(fresh[len(fresh)-1].Seen) < settled {
		fresh = fresh[:len(fresh)-1]
	}
	r.judged += len(fresh)
	suspicious := false
	for _, e := range judge.Order(fresh) {
		violations, err := r.live.Observe(e)
		suspicious = suspicious || err != nil || len(violations) > 0
	}
	if suspicious {
		r.judgeAll(r.log.Entries())
	}
}

func (r *run) judgeAll(entries []judge.Entry) {
	violations, err := judge.History(entries, r.limits())
	if err != nil {
		r.fail(err.Error(), judge.Entry{}, nil)
	}
	for i, v := range violations {
		if i > 0 {
			r.t.Error(v.String())
			continue
		}
		r.fail(v.String(), v.Entry, v.Hosts)
	}
}

func (r *run) notef(format string, args ...any) {
	r.t.Log(time.Now().UTC().Format("15:04:05.000") + " " + fmt.Sprintf(format, args...))
}
