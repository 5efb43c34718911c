package run

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/effects/effectstest"
	"github.com/slipway-dev/slipway/internal/agent/vip"
)

// noServer is the API server of a host without a control plane.
type noServer struct{ vip.Server }

// Lease implements vip.Server.
func (noServer) Lease(context.Context) (*coordinationv1.Lease, error) {
	return nil, vip.ErrNoControlPlane
}

// The Host reports the MAC addresses by which the management plane tells two holders apart.
func TestReportedMACAddresses(t *testing.T) {
	host := effectstest.New(t)
	address, log := netip.MustParseAddr("10.0.0.200"), slog.New(slog.DiscardHandler)
	keeper := &vip.Keeper{
		Holder: vip.Holder{Network: host.Network, Log: log}, Server: noServer{}, Now: time.Now, Log: log,
		Candidate: func() vip.Candidate {
			return vip.Candidate{Address: address, Identity: "host-1_1", Initializes: true}
		},
	}
	host.Network.Neighbour = "02:00:00:00:00:99"
	if err := keeper.HoldForInit(t.Context(), address); err == nil {
		t.Fatal("the address of another machine is held")
	}
	got := virtualIP{keeper}.Status()
	if got == nil || got.State != infrav1.VirtualIPStandby || got.MACAddress != host.Network.MAC("eth0") || got.DuplicateMACAddress != host.Network.Neighbour ||
		!strings.Contains(got.Message, host.Network.Neighbour) {
		t.Errorf("reported %+v", got)
	}
	host.Network.Neighbour = ""
	if err := keeper.HoldForInit(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	if got := (virtualIP{keeper}).Status(); got.State != infrav1.VirtualIPHeld || got.DuplicateMACAddress != "" || got.Message != "" {
		t.Errorf("reported %+v", got)
	}
}
