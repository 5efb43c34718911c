package inplace

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
)

// maxNamed is how many Machines a reason names.
const maxNamed = 5

// lacking says which of the selected Machines have no host that a change can be made on. Those
// that are being deleted don't count.
func (h *Handler) lacking(ctx context.Context, c change, selected ...client.ListOption) (no cannot, _ error) {
	machines := &clusterv1.MachineList{}
	if err := h.Client.List(ctx, machines, selected...); err != nil {
		return nil, fmt.Errorf("list the Machines: %w", err)
	}
	more := 0
	for i := range machines.Items {
		m := &machines.Items[i]
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		missing, err := h.lacks(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.InfrastructureRef.Name}, c)
		switch {
		case err != nil:
			return nil, err
		case missing != "" && len(no) == maxNamed:
			more++
		case missing != "":
			no = append(no, missing)
		}
	}
	if more > 0 {
		no = append(no, fmt.Sprintf("and %d more", more))
	}
	return no, nil
}

// lacks says why a change cannot be made on the host of a HostMachine; empty when it can.
func (h *Handler) lacks(ctx context.Context, key client.ObjectKey, c change) (string, error) {
	if c.asks != nil {
		if missing, err := h.misfits(ctx, key, c.asks); err != nil || missing != "" {
			return missing, err
		}
	}
	if c.version != "" {
		return h.lacksVersion(ctx, key, c.version)
	}
	return "", nil
}

// misfits says why the host of a HostMachine does not match the requirements; empty when it does,
// and for a machine without a host: it will claim one that matches.
func (h *Handler) misfits(ctx context.Context, key client.ObjectKey, asks *placement.Requirements) (string, error) {
	_, at, err := h.hostOf(ctx, h.Client, key)
	if err != nil || at == nil {
		return "", err
	}
	if why := asks.Mismatch(at); why != "" {
		return fmt.Sprintf("Host %s of HostMachine %s does not fit: %s", at.Name, key.Name, why), nil
	}
	return "", nil
}

// lacksVersion says why the host of a HostMachine cannot be upgraded to a version; empty
// when it can.
func (h *Handler) lacksVersion(ctx context.Context, key client.ObjectKey, version string) (string, error) {
	m, at, err := h.hostOf(ctx, h.Client, key)
	release, releaseErr := placement.ReleaseOf(ctx, h.Client, version)
	err = errors.Join(err, releaseErr)
	switch {
	case err != nil:
		return "", err
	case at == nil:
		return fmt.Sprintf("HostMachine %s has no host", key.Name), nil
	case !host.Bootstrapped(at):
		return fmt.Sprintf("Host %s is no node yet", at.Name), nil
	case host.OfferOf(at, version, release) == host.OfferNone:
		return fmt.Sprintf("Host %s does not offer Kubernetes %s", at.Name, version), nil
	case !m.DeletionTimestamp.IsZero():
		return fmt.Sprintf("HostMachine %s is being deleted", m.Name), nil
	}
	return "", nil
}

// hostOf reads a HostMachine and the Host that carries its claim; either is nil when there
// is none.
func (h *Handler) hostOf(ctx context.Context, c client.Reader, key client.ObjectKey) (*infrav1.HostMachine, *infrav1.Host, error) {
	m := &infrav1.HostMachine{}
	if err := c.Get(ctx, key, m); apierrors.IsNotFound(err) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("read HostMachine %s: %w", key.Name, err)
	}
	_, name, claimID, ok := host.ParseProviderID(m.Spec.ProviderID)
	if !ok {
		return m, nil, nil
	}
	at := &infrav1.Host{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: name}, at); apierrors.IsNotFound(err) {
		return m, nil, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("read Host %s: %w", name, err)
	}
	if at.Spec.Claim == nil || at.Spec.Claim.ClaimID != claimID {
		return m, nil, nil
	}
	return m, at, nil
}
