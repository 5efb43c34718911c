package step

import (
	"time"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// Kind is what a step does. It is the name of its field.
type Kind string

// The kinds of steps.
const (
	KindExpression Kind = "expression"
	KindWindow     Kind = "window"
	KindApproval   Kind = "approval"
	KindApply      Kind = "apply"
	KindJob        Kind = "job"
	KindWebhook    Kind = "webhook"
	KindWait       Kind = "wait"
	KindExport     Kind = "export"
)

// Kinds returns the kinds that a step sets: one, if it was validated.
func Kinds(s *lifecyclev1.Step) []Kind {
	var set []Kind
	for _, kind := range []struct {
		name Kind
		set  bool
	}{
		{KindExpression, s.Expression != nil}, {KindWindow, s.Window != nil}, {KindApproval, s.Approval != nil}, {KindApply, s.Apply != nil},
		{KindJob, s.Job != nil}, {KindWebhook, s.Webhook != nil}, {KindWait, s.Wait != nil}, {KindExport, s.Export != nil},
	} {
		if kind.set {
			set = append(set, kind.name)
		}
	}
	return set
}

// KindOf returns the kind of a step; empty for one that sets none.
func KindOf(s *lifecyclev1.Step) Kind {
	if set := Kinds(s); len(set) > 0 {
		return set[0]
	}
	return ""
}

// defaultTimeout is that of steps that do something themselves.
const defaultTimeout = 600 * time.Second

// Timeout is how long a step may take; 0 for no limit.
func Timeout(s *lifecyclev1.Step) time.Duration {
	switch {
	case s.TimeoutSeconds != nil:
		return time.Duration(*s.TimeoutSeconds) * time.Second
	case s.Expression != nil || s.Window != nil || s.Approval != nil:
		return 0
	default:
		return defaultTimeout
	}
}
