package step

import (
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

// KindOf returns the kind of a step; empty for one that sets none.
func KindOf(s *lifecyclev1.Step) Kind {
	switch {
	case s.Expression != nil:
		return KindExpression
	case s.Window != nil:
		return KindWindow
	case s.Approval != nil:
		return KindApproval
	case s.Apply != nil:
		return KindApply
	case s.Job != nil:
		return KindJob
	case s.Webhook != nil:
		return KindWebhook
	case s.Wait != nil:
		return KindWait
	case s.Export != nil:
		return KindExport
	}
	return ""
}
