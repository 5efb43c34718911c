package host

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// holdMove lets a claimed host hold up `clusterctl move`, which looks once, before it
// pauses the Cluster: so the annotation must be there all the time. Only a Cluster
// that is paused takes it off again; without one it would stay for ever.
func (r *Reconciler) holdMove(ctx context.Context, s *scope) (bool, error) {
	return true, r.blockMove(ctx, s, true)
}

// yieldToMove lets go when the host may be moved. It is one of the few things that
// happen while the Cluster is paused; clusterctl waits for minutes, so that an
// operation comes to its end.
func (r *Reconciler) yieldToMove(ctx context.Context, s *scope) (bool, error) {
	ready := s.facts.Move != nil && s.facts.Move.Status == metav1.ConditionTrue
	if err := r.blockMove(ctx, s, !ready); err != nil {
		return false, err
	}
	return true, r.applyReadyToMove(ctx, s)
}

// blockMove never blocks for a host without a Cluster, with which it would move.
func (r *Reconciler) blockMove(ctx context.Context, s *scope, block bool) error {
	block = block && s.host.Spec.Claim != nil && s.cluster != nil
	if host.BlocksMove(s.host) == block {
		return nil
	}
	before := s.host.DeepCopy()
	host.BlockMove(s.host, block)
	if err := r.Client.Patch(ctx, s.host, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("hold up a move: %w", err)
	}
	return nil
}

// judgeMove says what holds up a move, while the question is asked: the Cluster is
// paused, or somebody hands the host over.
func (r *Reconciler) judgeMove(ctx context.Context, s *scope) (bool, error) {
	if s.host.Spec.Claim == nil {
		return true, nil
	}
	handOver, problem, err := r.handOver(ctx, s.host.Namespace)
	if err != nil {
		return false, err
	}
	if handOver == nil && !s.paused {
		return true, nil
	}
	facts := host.MoveFacts{Connected: s.facts.Connection.Connected, HandOver: handOver, Problem: problem}
	if s.lease != nil {
		facts.Told = told(s.lease)
		facts.Report, _ = host.ParseHandOverReport(s.lease.Annotations[infrav1.HandOverReportAnnotation])
	}
	condition := host.ReadyToMove(s.host, facts)
	s.facts.Move = &condition
	return true, nil
}

// applyReadyToMove tells on a paused host what holds up the move; the rest of its
// status stays as it is.
func (r *Reconciler) applyReadyToMove(ctx context.Context, s *scope) error {
	before := conditions.Get(s.host, infrav1.ReadyToMoveCondition)
	if s.facts.Move == nil || (before != nil && conditions.HasSameState(before, s.facts.Move)) {
		return nil
	}
	wanted := s.host.DeepCopy()
	conditions.Set(wanted, *s.facts.Move)
	return r.applyOwnStatus(ctx, wanted)
}

// handOver reads what the operator of a namespace requested: nil for nothing.
func (r *Reconciler) handOver(ctx context.Context, namespace string) (_ *host.HandOver, problem string, _ error) {
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: infrav1.HandOverSecretName}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, "", nil
	case err != nil:
		return nil, "", fmt.Errorf("get Secret %s: %w", infrav1.HandOverSecretName, err)
	case !secret.DeletionTimestamp.IsZero():
		return nil, "", nil
	}
	handOver := host.ReadHandOver(secret.Data)
	return &handOver, secret.Annotations[infrav1.HandOverProblemAnnotation], nil
}
