package run

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/vip"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// noServer is the API server of a host without a control plane.
type noServer struct{ vip.Server }

// Lease implements vip.Server.
func (noServer) Lease(context.Context) (*coordinationv1.Lease, error) {
	return nil, vip.ErrNoControlPlane
}

// The Host reports the MAC addresses by which the management plane tells two holders apart.
func TestReportedMACAddresses(t *testing.T) {
	host := fakehost.New(t)
	address, log := netip.MustParseAddr("10.0.0.200"), slog.New(slog.DiscardHandler)
	now := time.Unix(1_000_000, 0)
	keeper := &vip.Keeper{
		Holder: vip.Holder{Network: host.Network, Log: log}, Server: noServer{}, Now: func() time.Time { return now }, Log: log,
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
	neighbour := host.Network.Neighbour
	host.Network.Neighbour = ""
	if err := keeper.HoldForInit(t.Context(), address); err == nil {
		t.Fatal("the address that another machine had just now is held")
	}
	if got := (virtualIP{keeper}).Status(); got.State != infrav1.VirtualIPStandby || got.DuplicateMACAddress != neighbour {
		t.Errorf("reported %+v", got)
	}
	now = now.Add(10 * time.Second)
	if err := keeper.HoldForInit(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	if got := (virtualIP{keeper}).Status(); got.State != infrav1.VirtualIPHeld || got.DuplicateMACAddress != "" || got.Message != "" {
		t.Errorf("reported %+v", got)
	}
}

// answering is an API server that answers at the endpoint, of a control plane that is being made.
type answering struct {
	noServer
	at chan<- netip.AddrPort
}

// Answers implements vip.Server.
func (a answering) Answers(_ context.Context, endpoint netip.AddrPort) error {
	a.at <- endpoint
	return nil
}

// The Host reports the port of the endpoint, and that the API server answers there, as the keeper
// finds out while it runs.
func TestReportedAnswerOfTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := fakehost.New(t)
		address, log, at := netip.MustParseAddr("10.0.0.200"), slog.New(slog.DiscardHandler), make(chan netip.AddrPort, 100)
		keeper := &vip.Keeper{
			Holder: vip.Holder{Network: host.Network, Log: log}, Server: answering{at: at}, Now: time.Now, Log: log,
			Candidate: func() vip.Candidate {
				return vip.Candidate{Address: address, Port: 443, Identity: "host-1_1", Initializes: true}
			},
		}
		if err := keeper.HoldForInit(t.Context(), address); err != nil {
			t.Fatal(err)
		}
		if got := (virtualIP{keeper}).Status(); got.State != infrav1.VirtualIPHeld || got.Port != 443 || got.APIServer != "" {
			t.Errorf("before anybody looked it is %+v", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go keeper.Run(ctx)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if asked := len(at); asked == 0 || (<-at).String() != "10.0.0.200:443" {
			t.Errorf("the API server at the endpoint was asked for %d times", asked)
		}
		if got := (virtualIP{keeper}).Status(); got.State != infrav1.VirtualIPHeld || got.Port != 443 || got.APIServer != infrav1.VirtualIPAPIServerAnswering {
			t.Errorf("reported %+v", got)
		}
	})
}
