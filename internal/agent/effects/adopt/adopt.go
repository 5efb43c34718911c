package adopt

import (
	"context"
	"errors"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/hostos/kubelet"
)

// Node is the host's own Node; *workload.Client implements it.
type Node interface {
	Get(ctx context.Context) (*corev1.Node, error)
	// SetProviderID fails when the Node has another one, or is not the one that was
	// read any more.
	SetProviderID(ctx context.Context, node *corev1.Node, providerID string) error
}

// Adopter adopts the worker node on this host.
type Adopter struct {
	Root   hostfs.Root
	Runner command.Runner
	// Connect reaches the Node with the kubelet's credential, and trusts no other
	// certificate authorities than those given, in PEM.
	Connect func(authorities []byte) (Node, error)
	// Baseline is what a reset will leave on the host.
	Baseline func(ctx context.Context) (*journal.Baseline, error)
	Log      *slog.Logger
}

// Adopt takes over the node. It may be repeated at any point.
func (a Adopter) Adopt(ctx context.Context, requested operation.Adoption, progress operation.Progress) error {
	var client Node
	var node *corev1.Node
	err := operation.Step(progress, "adopt: check", func() (err error) {
		client, node, err = a.check(ctx, requested, progress.State())
		return err
	})
	if err != nil {
		return err
	}
	var baseline *journal.Baseline
	if err := operation.Step(progress, "adopt: baseline", func() (err error) { baseline, err = a.Baseline(ctx); return err }); err != nil {
		return err
	}
	if err := a.mark(ctx, client, node, requested, progress); err != nil {
		if ctx.Err() == nil {
			err = errors.Join(err, a.Disown())
		}
		return err
	}
	a.Log.Info("the node is adopted", slog.Group("Node", "name", node.Name), "providerID", requested.ProviderID)
	return progress.Update(func(s *journal.State) {
		s.Residue, s.ResidueGeneration = journal.ResidueCommands, s.ClaimGeneration
		s.Baseline, s.CleanProof, s.Found = baseline, nil, nil
	})
}

// mark makes the node the claim's own: the kubelet never registers it anew, as one that
// was bootstrapped does not, and the Node has the providerID.
func (a Adopter) mark(ctx context.Context, client Node, node *corev1.Node, requested operation.Adoption, progress operation.Progress) error {
	err := operation.Step(progress, "adopt: kubelet arguments", func() error {
		return kubelet.Apply(a.Root, kubelet.Arguments{ProviderID: requested.ProviderID, Registered: true})
	})
	if err != nil || node.Spec.ProviderID == requested.ProviderID {
		return err
	}
	return operation.Step(progress, "adopt: providerID", func() error {
		err := client.SetProviderID(ctx, node, requested.ProviderID)
		if apierrors.IsInvalid(err) || apierrors.IsConflict(err) {
			// Somebody else wrote it since, or the Node is another one: the check tells.
			return operation.Failf(operation.ReasonProviderIDTaken, operation.RetryAfterReset, err, "give Node %s its providerID", node.Name)
		}
		return operation.Unreachable(err, "give Node "+node.Name+" its providerID")
	})
}

// Disown takes back what Adopt wrote on the host. The running kubelet has not read it.
func (a Adopter) Disown() error { return kubelet.Remove(a.Root) }
