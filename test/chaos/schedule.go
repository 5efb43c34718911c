package chaos

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// State is what the plan has asked for so far, and what its open faults hold.
type State struct {
	// Hosts by name.
	Hosts []string
	// Pool and Deployment are the sizes of the workers of the first cluster.
	Pool, Deployment int
	// Second is the number of the second cluster; 0 while there is none.
	Second int
	// Made counts what gets a name of its own: templates and clusters.
	Made int
	// held are the hosts and parts that an open fault holds. Another one leaves them alone.
	held []string
}

// Free says whether no open fault holds a host or a part.
func (s *State) Free(what string) bool { return !slices.Contains(s.held, what) }

// FreeHosts are those no open fault holds.
func (s *State) FreeHosts() []string {
	return slices.DeleteFunc(slices.Clone(s.Hosts), func(h string) bool { return !s.Free(h) })
}

// Spare is how many more workers there may be: one host stays free for rollouts, and each
// cluster needs one for its control plane.
func (s *State) Spare() int {
	spare := len(s.Hosts) - 2 - s.Pool - s.Deployment
	if s.Second > 0 {
		spare--
	}
	return spare
}

// Arguments of one fault.
type Arguments struct {
	// Host is held until the fault is undone, if it is one that is undone.
	Host string
	// Value is a size or a number.
	Value int
	// Pick chooses among what is there when the fault is injected.
	Pick int
}

// Kind is a kind of fault, as the planner sees it.
type Kind struct {
	Name string
	// Fits says whether it can be injected; nil means always.
	Fits func(*State) bool
	// Draw chooses the arguments and notes what they change.
	Draw func(*rand.Rand, *State) Arguments
	// Holds is what it holds besides its host.
	Holds string
	// Needs is what no other fault may hold when it is injected or undone.
	Needs string
	// Longest is the longest time until it is undone; 0 for a fault that is not.
	Longest time.Duration
}

// Step is one thing to do.
type Step struct {
	Round, Number int
	// After is how long after the step before it.
	After time.Duration
	// Kind is an index into the kinds of the plan.
	Kind int
	Name string
	Undo bool
	Arguments
}

func (s Step) String() string {
	verb := "inject"
	if s.Undo {
		verb = "undo"
	}
	return fmt.Sprintf("round %d, after %5.1fs: %-6s %s host=%s value=%d pick=%d", s.Round, s.After.Seconds(), verb, s.Name, s.Host, s.Value, s.Pick)
}

// Plan draws one round after the other.
type Plan struct {
	State State

	random *rand.Rand
	kinds  []Kind
	round  int
	number int
}

// NewPlan begins a plan.
func NewPlan(seed uint64, kinds []Kind, state State) *Plan {
	return &Plan{State: state, random: rand.New(rand.NewPCG(seed, 0)), kinds: kinds}
}

// longestPause is that between two faults.
const longestPause = 12 * time.Second

// open is a fault that will be undone.
type open struct {
	step  Step
	until time.Duration
}

// Round draws so many faults and undoes all of them that can be undone. Some overlap. There
// must be a fault that fits while no other is open.
func (p *Plan) Round(faults int) []Step {
	p.round++
	var steps []Step
	var opened []open
	now, last := time.Duration(0), time.Duration(0)
	add := func(at time.Duration, s Step) {
		s.After = max(0, at-last)
		last = max(at, last)
		steps = append(steps, s)
	}
	undo := func(until time.Duration) {
		for {
			i := slices.IndexFunc(opened, p.canUndo)
			if i < 0 || opened[i].until > until {
				return
			}
			o := opened[i]
			opened = slices.Delete(opened, i, i+1)
			o.step.Undo = true
			add(o.until, o.step)
			p.release(o.step)
		}
	}
	for range faults {
		now += p.duration(longestPause)
		undo(now)
		fitting := p.fitting()
		for ; len(fitting) == 0; fitting = p.fitting() {
			// Open faults hold everything: the next one is undone first.
			now = max(now, opened[slices.IndexFunc(opened, p.canUndo)].until)
			undo(now)
		}
		i := fitting[p.random.IntN(len(fitting))]
		step := Step{Round: p.round, Number: p.number, Kind: i, Name: p.kinds[i].Name, Arguments: p.kinds[i].Draw(p.random, &p.State)}
		p.number++
		add(now, step)
		if longest := p.kinds[i].Longest; longest > 0 {
			opened = append(opened, open{step, now + p.duration(longest)})
			slices.SortStableFunc(opened, func(a, b open) int { return cmp.Compare(a.until, b.until) })
			p.hold(step)
		}
	}
	undo(math.MaxInt64)
	return steps
}

// canUndo says whether what a fault needs is there.
func (p *Plan) canUndo(o open) bool { return p.State.Free(p.kinds[o.step.Kind].Needs) }

func (p *Plan) duration(longest time.Duration) time.Duration {
	return time.Duration(p.random.Int64N(int64(longest/time.Millisecond))) * time.Millisecond
}

// fitting are the kinds that can be injected now.
func (p *Plan) fitting() []int {
	var fitting []int
	for i, k := range p.kinds {
		if p.State.Free(k.Holds) && p.State.Free(k.Needs) && (k.Fits == nil || k.Fits(&p.State)) {
			fitting = append(fitting, i)
		}
	}
	return fitting
}

func (p *Plan) hold(s Step) { p.State.held = append(p.State.held, p.holds(s)...) }

func (p *Plan) release(s Step) {
	for _, what := range p.holds(s) {
		i := slices.Index(p.State.held, what)
		p.State.held = slices.Delete(p.State.held, i, i+1)
	}
}

func (p *Plan) holds(s Step) []string {
	var held []string
	for _, what := range []string{s.Host, p.kinds[s.Kind].Holds} {
		if what != "" {
			held = append(held, what)
		}
	}
	return held
}
