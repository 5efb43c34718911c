package adopt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

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
	// ClusterConfiguration is kubeadm's document of that name.
	ClusterConfiguration(ctx context.Context) (string, error)
}

// Adopter adopts the worker node on this host.
type Adopter struct {
	Root   hostfs.Root
	Runner command.Runner
	// Connect reaches the Node with the kubelet's credential, and trusts no other
	// certificate authorities than those given, in PEM.
	Connect func(authorities []byte) (Node, error)
	// Baseline is what a reset will leave on the host. networks are those of the cluster's pods and services.
	Baseline func(ctx context.Context, networks []netip.Prefix) (*journal.Baseline, error)
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
	if err := operation.Step(progress, "adopt: baseline", func() error {
		networks, err := networksOf(ctx, client, node)
		if err == nil {
			baseline, err = a.Baseline(ctx, networks)
		}
		return err
	}); err != nil {
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

// networksOf are the networks of the cluster's pods and services as kubeadm has them, and those of the node's own pods. A
// cluster that was not made by kubeadm, or does not let its nodes read that, has the latter alone.
func networksOf(ctx context.Context, client Node, node *corev1.Node) ([]netip.Prefix, error) {
	text, err := client.ClusterConfiguration(ctx)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return nil, operation.Unreachable(err, "read the networks of the cluster")
	}
	var config struct {
		Networking struct {
			PodSubnet     string `json:"podSubnet"`
			ServiceSubnet string `json:"serviceSubnet"`
		} `json:"networking"`
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return nil, fmt.Errorf("read the networks of the cluster in kubeadm's ClusterConfiguration: %w", err)
	}
	all := slices.Concat(strings.Split(config.Networking.PodSubnet, ","), strings.Split(config.Networking.ServiceSubnet, ","), node.Spec.PodCIDRs)
	var networks []netip.Prefix
	for _, text := range all {
		if p, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil && p.Bits() > 0 {
			networks = append(networks, p)
		}
	}
	return networks, nil
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
