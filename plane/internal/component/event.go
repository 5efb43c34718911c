package component

import "time"

// Phase is where a component stands in its life.
type Phase string

// The phases, in the order in which a component goes through them.
const (
	PhaseInit     Phase = "initializing"
	PhaseStart    Phase = "starting"
	PhaseWait     Phase = "waiting to be ready"
	PhaseReady    Phase = "ready"
	PhaseStopping Phase = "stopping"
	PhaseStopped  Phase = "stopped"
	PhaseFailed   Phase = "failed"
)

// Event reports that a component entered a phase, or, in PhaseWait, what it
// waits for. A component that is ready at once skips PhaseWait.
type Event struct {
	Component string
	Phase     Phase
	// Reason is what is waited for (PhaseWait) or what went wrong
	// (PhaseFailed), otherwise empty.
	Reason string
	// Elapsed is the time since the Group was run, or, from PhaseStopping on,
	// since it began to stop.
	Elapsed time.Duration
}
