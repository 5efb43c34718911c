package host

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/tracing"
)

// traceOperation tells an operation that has ended, with its steps, and returns the context
// of it. One that makes the host a node is a part of the claim; any other has a trace of its
// own, which the hook AfterHostRelease joins after a reset.
func (r *Reconciler) traceOperation(ctx context.Context, h *infrav1.Host, op *infrav1.ObservedOperation) context.Context {
	if r.Tracer == nil {
		return ctx
	}
	attributes := []attribute.KeyValue{
		tracing.NamespaceKey.String(h.Namespace), tracing.HostKey.String(h.Name), tracing.ClaimKey.String(op.ClaimID),
		tracing.OperationKey.String(op.ID), tracing.PhaseKey.String(string(op.Phase)),
	}
	if claim := h.Spec.Claim; claim != nil {
		attributes = append(attributes, tracing.ClusterKey.String(claim.ClusterName))
	}
	span := tracing.Span{Name: "operation " + string(op.Phase), Attributes: attributes}
	if op.State == infrav1.OperationFailed {
		span.Failed = op.Message
		span.Attributes = append(span.Attributes, tracing.ReasonKey.String(op.Reason))
	}
	span.Start, span.End = exact(op)
	switch op.Phase {
	case infrav1.HostDesiredBootstrapped, infrav1.HostDesiredAdopted:
		ctx = r.Tracer.Child(r.Tracer.Join(ctx, tracing.OfClaim(op.ClaimID)), span)
	case infrav1.HostDesiredUpgraded, infrav1.HostDesiredRebooted, infrav1.HostDesiredReset:
		ctx = r.Tracer.Root(ctx, tracing.OfOperation(op.ID), span)
	}
	for i, s := range op.Steps {
		r.Tracer.Child(ctx, tracing.Span{
			Name: s.Name, Start: s.StartTime.Time, End: stepEnd(op, i), Failed: failedStep(op, i), Attributes: attributes,
		})
	}
	return ctx
}

// exact are begin and end of an operation, which tells whole seconds: its steps know better.
func exact(op *infrav1.ObservedOperation) (start, end time.Time) {
	start, end = op.StartTime.Time, op.CompletionTime.Time
	if len(op.Steps) == 0 {
		return start, end
	}
	if first := op.Steps[0].StartTime.Time; first.Sub(start) < time.Second {
		start = first
	}
	if last := stepEnd(op, len(op.Steps)-1); last.After(end) {
		end = last
	}
	return start, end
}

// stepEnd of one that a crash cut short is at the latest the begin of the next one.
func stepEnd(op *infrav1.ObservedOperation, i int) time.Time {
	switch {
	case !op.Steps[i].CompletionTime.IsZero():
		return op.Steps[i].CompletionTime.Time
	case i+1 < len(op.Steps):
		return op.Steps[i+1].StartTime.Time
	}
	return op.CompletionTime.Time
}

// failedStep is why the last step of an operation failed.
func failedStep(op *infrav1.ObservedOperation, i int) string {
	if op.State == infrav1.OperationFailed && i == len(op.Steps)-1 {
		return op.Reason
	}
	return ""
}
