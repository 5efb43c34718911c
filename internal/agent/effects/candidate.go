package effects

import (
	"fmt"
	"net/netip"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/vip"
)

// Candidate is what the journal lets a host do about the control-plane address.
// Its identity ends with the claim: a host that was reset and joins again is
// another candidate.
func Candidate(host string, s journal.State) vip.Candidate {
	ip, err := netip.ParseAddr(s.VirtualIP)
	if err != nil {
		return vip.Candidate{}
	}
	c := vip.Candidate{Address: ip.Unmap(), Port: uint16(s.VirtualIPPort), Identity: fmt.Sprintf("%s_%d", host, s.ResidueGeneration), Leaving: s.ResidueGeneration != s.ClaimGeneration}
	if op := s.Operation; op != nil {
		c.Leaving = c.Leaving || op.ResetFirst || op.Phase == infrav1.HostDesiredReset
		c.Initializes = !c.Leaving && s.Running() && op.Active && op.InitializesControlPlane
	}
	return c
}
