package agent

import (
	"context"
	"fmt"
	"net/netip"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/journal"
	"github.com/slipway-dev/slipway/internal/agent/vip"
)

// VirtualIP tells what the host does about the control-plane address.
type VirtualIP interface {
	Status() vip.Status
	// Changed returns a channel that is closed at the next change of the status.
	Changed() <-chan struct{}
}

// Candidate is what the journal lets a host do about the control-plane address.
// Its identity ends with the claim: a host that was reset and joins again is
// another candidate.
func Candidate(host string, s journal.State) vip.Candidate {
	ip, err := netip.ParseAddr(s.VirtualIP)
	if err != nil {
		return vip.Candidate{}
	}
	leaving := s.ResidueGeneration != s.ClaimGeneration
	if op := s.Operation; op != nil && (op.ResetFirst || op.Phase == infrav1.HostDesiredReset) {
		leaving = true
	}
	return vip.Candidate{Address: ip, Identity: fmt.Sprintf("%s_%d", host, s.ResidueGeneration), Leaving: leaving}
}

// virtualIP is the report on the address; nil on a host that is no candidate.
func virtualIP(s vip.Status) *infrav1.VirtualIPStatus {
	if !s.Address.IsValid() {
		return nil
	}
	status := &infrav1.VirtualIPStatus{Address: s.Address.String(), State: infrav1.VirtualIPStandby, Term: s.Term, Message: s.Problem}
	if s.Held {
		status.State = infrav1.VirtualIPHeld
	}
	if len(status.Message) > maxMessage {
		status.Message = status.Message[:maxMessage-3] + "..."
	}
	return status
}

// followVirtualIP reports each change until the context ends.
func (a *Agent) followVirtualIP(ctx context.Context) {
	for {
		changed := a.options.VirtualIP.Changed()
		a.report()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}
