package judge

import (
	"fmt"
	"time"
)

// Limits are how long what takes its time may take.
type Limits struct {
	// NodeAbsent is how long a HostMachine may be Ready without a Node.
	NodeAbsent time.Duration
	// NodeNotReady is how long a HostMachine may be Ready while its Node is not.
	NodeNotReady time.Duration
	// Lag is how far apart two clusters may be seen.
	Lag time.Duration
}

// Violation is a promise that was not kept.
type Violation struct {
	Rule string
	// Message tells what was seen.
	Message string
	// Entry is the one that broke the rule, or with which its time was over.
	Entry Entry
	// Hosts are the names of the hosts that are concerned.
	Hosts []string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s (%s, revision %d)", v.Rule, v.Message, v.Entry.Seen.UTC().Format(time.TimeOnly), v.Entry.Revision)
}

// finding is a violation before it has a rule and an entry.
type finding struct {
	message string
	hosts   []string
}

// rule looks at each change of a history, in order, with the world as it is after it.
type rule func(w *world, c change) []finding

// rules in the order of docs/reliability.md. Each is made anew for a history, since some
// remember.
var rules = []struct {
	name string
	make func(Limits) rule
}{
	{"one machine at a time names a host", oneMachinePerHost},
	{"one host at a time carries a claim", oneHostPerClaim},
	{"a claim ends before the next begins", claimsEnd},
	{"a reset is proved between two claims", resetBetweenClaims},
	{"generations and terms never fall", neverFalls},
	{"one term of an address belongs to one host", oneHostPerTerm},
	{"nothing that is being deleted claims a host", nothingDeletedClaims},
	{"no Node goes while its HostMachine lives", nodesOutlive},
	{"a providerID leaves the list after its HostMachine", listFollowsMachines},
	{"a machine that is Ready has a Node that is", readyIsTrue},
}

// Judge judges a history as it grows. Entries are given in order, see history.Order.
type Judge struct {
	world *world
	rules []rule
}

// New returns a judge who has seen nothing.
func New(limits Limits) *Judge {
	j := &Judge{world: newWorld()}
	for _, r := range rules {
		j.rules = append(j.rules, r.make(limits))
	}
	return j
}

// Observe returns what an entry violates. An object that cannot be read is an error.
func (j *Judge) Observe(e Entry) ([]Violation, error) {
	c, err := j.world.apply(e)
	if err != nil {
		return nil, err
	}
	var violations []Violation
	for i, judge := range j.rules {
		for _, f := range judge(j.world, c) {
			violations = append(violations, Violation{Rule: rules[i].name, Message: f.message, Entry: e, Hosts: f.hosts})
		}
	}
	return violations, nil
}

// History judges a whole history, in whichever order its entries are.
func History(entries []Entry, limits Limits) ([]Violation, error) {
	j := New(limits)
	var violations []Violation
	for _, e := range Order(entries) {
		found, err := j.Observe(e)
		if err != nil {
			return nil, err
		}
		violations = append(violations, found...)
	}
	return violations, nil
}
