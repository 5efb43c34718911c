package provision

import "context"

// Step is one part of adding a machine, named as progress shows it.
type Step string

// The steps of adding, in their order. The first three are part of every run, and change
// nothing.
const (
	StepConnect   Step = "connect"
	StepFacts     Step = "facts"
	StepCheck     Step = "check"
	StepAgent     Step = "agent"
	StepPreflight Step = "preflight"
	StepBundle    Step = "bundle"
	StepSoftware  Step = "software"
	StepFitness   Step = "fitness"
	StepHost      Step = "host"
	StepEnroll    Step = "enroll"
	StepStart     Step = "start"
	StepAvailable Step = "available"
)

// step changes a machine, or what the management cluster knows of it. It may be done
// again: the process that did it may have ended before anybody heard of it.
type step struct {
	name   Step
	needed func(Facts, *wanted) bool
	run    func(*addition, context.Context) error
}

// steps in their order: nothing is brought before the machine is known to be fit for it,
// nobody learns of the machine before its software is there, and labels and failure
// domain are on the Host before anybody can claim it.
var steps = []step{
	{StepAgent, lacksAgent, (*addition).bringAgent},
	{StepPreflight, lacksSoftware, (*addition).preflight},
	{StepBundle, lacksSoftware, (*addition).bringBundle},
	{StepSoftware, lacksSoftware, (*addition).installSoftware},
	{StepFitness, notEnrolled, (*addition).fitness},
	{StepHost, func(_ Facts, w *wanted) bool { return w.describes() }, (*addition).describeHost},
	{StepEnroll, notEnrolled, (*addition).enroll},
	{StepStart, lacksService, (*addition).start},
	{StepAvailable, func(Facts, *wanted) bool { return true }, (*addition).available},
}

// plan returns the steps that are to be done.
func plan(f Facts, w *wanted) []step {
	var todo []step
	for _, s := range steps {
		if s.needed(f, w) {
			todo = append(todo, s)
		}
	}
	return todo
}

func lacksSoftware(f Facts, w *wanted) bool { return w.bundle != nil && !w.bundle.installed(f) }

func notEnrolled(f Facts, _ *wanted) bool { return !f.enrolled() }

// lacksAgent also holds while a step needs the agent that was brought.
func lacksAgent(f Facts, w *wanted) bool {
	return f.AgentDigest != w.agent.digest && f.StagedAgentDigest != w.agent.digest
}

// lacksService is of a host that is enrolled: enrolling starts the service itself.
func lacksService(f Facts, w *wanted) bool {
	return f.enrolled() && (f.AgentDigest != w.agent.digest || f.UnitDigest != w.unitDigest() || !f.AgentRuns)
}
