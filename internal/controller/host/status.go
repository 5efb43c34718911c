package host

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// applyStatus writes phase and conditions, and only when one of them changed: with
// thousands of hosts, a heartbeat must not cost a write.
func (r *Reconciler) applyStatus(ctx context.Context, s *scope) (bool, error) {
	state := host.StateOf(s.host)
	wanted := s.host.DeepCopy()
	wanted.Status.Phase = state.Phase
	changed := s.host.Status.Phase != state.Phase
	now := host.Conditions(s.host, s.facts)
	for _, condition := range now {
		before := conditions.Get(s.host, condition.Type)
		changed = changed || before == nil || !conditions.HasSameState(before, &condition)
		conditions.Set(wanted, condition)
	}
	for condition := range ownConditions {
		if meta.FindStatusCondition(now, condition) == nil && conditions.Has(s.host, condition) {
			conditions.Delete(wanted, condition)
			changed = true
		}
	}
	if !changed {
		return true, nil
	}
	if s.statusDue = r.statuses.Wait(client.ObjectKeyFromObject(s.host), inTransition(s.host, state), r.StatusDelay, r.Clock.Now()); s.statusDue > 0 {
		return true, nil
	}
	if err := r.applyOwnStatus(ctx, wanted); err != nil {
		return false, err
	}
	if state.Quarantined() && s.host.Status.Phase != state.Phase {
		r.Recorder.Eventf(s.host, nil, "Warning", "Quarantined", "Release", "%.900s", state.Message)
	}
	return true, nil
}

// applyOwnStatus applies the part of a status that this controller owns.
func (r *Reconciler) applyOwnStatus(ctx context.Context, wanted *infrav1.Host) error {
	apply, err := statusApply(wanted)
	if err != nil {
		return err
	}
	err = r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(apply), client.FieldOwner(FieldOwner), client.ForceOwnership)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = r.dropConditions(ctx, wanted, apply)
	}
	if err != nil {
		return fmt.Errorf("apply the status of the host: %w", err)
	}
	return nil
}

// dropConditions removes those of this controller that outlived being applied without, as somebody else owns them, too: an agent may
// apply a condition as it is.
func (r *Reconciler) dropConditions(ctx context.Context, wanted *infrav1.Host, stored *unstructured.Unstructured) error {
	is := &infrav1.Host{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, is); err != nil {
		return err
	}
	before := is.DeepCopy()
	for condition := range ownConditions {
		if !conditions.Has(wanted, condition) {
			conditions.Delete(is, condition)
		}
	}
	if len(is.Status.Conditions) == len(before.Status.Conditions) {
		return nil
	}
	return client.IgnoreNotFound(r.Client.Status().Patch(ctx, is, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldOwner)))
}

// inTransition says that the host goes from free to running and that nothing is wrong. It
// is still under way while its operation names the Secret, which the end of the
// bootstrap changes.
func inTransition(h *infrav1.Host, now host.State) bool {
	if !h.DeletionTimestamp.IsZero() {
		return false
	}
	switch now.Phase {
	case infrav1.HostPhaseClaimed, infrav1.HostPhaseBootstrapping:
	case infrav1.HostPhaseRunning:
		if bootstrapSecret(h) == "" {
			return false
		}
	default:
		return false
	}
	switch h.Status.Phase {
	case infrav1.HostPhaseAvailable, infrav1.HostPhaseClaimed, infrav1.HostPhaseBootstrapping:
		return true
	default:
		return false
	}
}

// ownConditions are the conditions this controller applies. Paused is written by
// Cluster API's helper.
var ownConditions = map[string]bool{
	clusterv1.ReadyCondition:            true,
	infrav1.AgentConnectedCondition:     true,
	infrav1.ClockSkewedCondition:        true,
	infrav1.AgentSupportedCondition:     true,
	infrav1.AgentUpdatedCondition:       true,
	infrav1.AvailableCondition:          true,
	infrav1.DuplicateIdentityCondition:  true,
	infrav1.ReleaseHooksPassedCondition: true,
	infrav1.ReadyToMoveCondition:        true,
	infrav1.ReportAcceptedCondition:     true,
	infrav1.NodeIdentityKeptCondition:   true,
	infrav1.RecordKeptCondition:         true,

	infrav1.ConfigurationAcceptedCondition: true,
}

// statusApply holds nothing but what this controller owns.
func statusApply(h *infrav1.Host) (*unstructured.Unstructured, error) {
	own := &infrav1.HostStatus{Phase: h.Status.Phase}
	for _, condition := range h.Status.Conditions {
		if ownConditions[condition.Type] {
			own.Conditions = append(own.Conditions, condition)
		}
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(own)
	if err != nil {
		return nil, fmt.Errorf("encode the status of the host: %w", err)
	}
	apply := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	apply.SetGroupVersionKind(infrav1.GroupVersion.WithKind("Host"))
	apply.SetNamespace(h.Namespace)
	apply.SetName(h.Name)
	// With the UID, an apply can't bring a deleted host back to life.
	apply.SetUID(h.UID)
	return apply, nil
}
