package run

import (
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/vip"
)

// virtualIP is what a Keeper does, as the Host reports it.
type virtualIP struct{ *vip.Keeper }

// Status implements link.VirtualIP.
func (v virtualIP) Status() *infrav1.VirtualIPStatus {
	s := v.Keeper.Status()
	if !s.Address.IsValid() {
		return nil
	}
	status := &infrav1.VirtualIPStatus{Address: s.Address.String(), State: infrav1.VirtualIPStandby, Port: int32(s.Port), APIServer: infrav1.VirtualIPAPIServer(s.APIServer), Term: s.Term, MACAddress: s.MAC, DuplicateMACAddress: s.DuplicateMAC, Message: s.Problem}
	if s.Held {
		status.State = infrav1.VirtualIPHeld
	}
	return status
}
