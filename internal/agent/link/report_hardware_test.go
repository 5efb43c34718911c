package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// api is a server that may know no hardware and no steps.
type api struct {
	old     bool
	applied []infrav1.HostStatus
	refused int
}

func (a *api) ApplyHostStatus(_ context.Context, h *infrav1.Host) error {
	unknown := ""
	for field, is := range map[string]bool{
		".status.inventory.hardware": h.Status.Inventory.Hardware.BootMode != "", ".status.agentUpdate": h.Status.AgentUpdate != nil,
		".status.observedOperation.steps": len(h.Status.ObservedOperation.Steps) > 0,
	} {
		if is {
			unknown += "\n" + field + ": field not declared in schema"
		}
	}
	if a.old && unknown != "" {
		a.refused++
		return errors.New("failed to create typed patch object (ns/h; infrastructure.slipway.dev/v1beta2, Kind=Host): errors:" + unknown)
	}
	a.applied = append(a.applied, h.Status)
	return nil
}

// Agents may be upgraded before the manager: they report to an API that lacks hardware and steps,
// write nothing twice, and tell of them once the API is theirs.
func TestReportToAnAPIWithoutHardware(t *testing.T) {
	server := &api{old: true}
	r := newReporter(server, "ns", "h", slog.New(slog.DiscardHandler), func() time.Duration { return time.Second })
	var accepted []string
	r.onApplied = func(s infrav1.HostStatus) { accepted = append(accepted, s.Inventory.AgentVersion) }
	r.set(infrav1.HostStatus{BootID: "boot", Inventory: infrav1.HostInventory{Architecture: "amd64", AgentVersion: "v0.2.0", Hardware: infrav1.HostHardware{BootMode: infrav1.BootModeUEFI}},
		ObservedOperation: &infrav1.ObservedOperation{ID: "o", ClaimID: "c", Phase: infrav1.HostDesiredReset, State: infrav1.OperationRunning, Steps: []infrav1.OperationStep{{Name: "baseline", StartTime: now}}},
		AgentUpdate:       &infrav1.HostAgentUpdate{Version: "v0.2.0", ReleaseDigest: "sha256:1", State: infrav1.HostAgentUpdateTrying}})
	for range 3 {
		if err := r.apply(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(server.applied) != 1 || server.applied[0].Inventory.Architecture != "amd64" || server.refused != 3 {
		t.Errorf("%d refused, applied %+v", server.refused, server.applied)
	}
	server.old = false
	for range 3 {
		if err := r.apply(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(server.applied) != 2 || server.applied[1].Inventory.Hardware.BootMode != infrav1.BootModeUEFI || len(server.applied[1].ObservedOperation.Steps) != 1 || server.applied[1].AgentUpdate == nil {
		t.Errorf("applied %+v", server.applied)
	}
	if fmt.Sprint(accepted) != "[v0.2.0 v0.2.0]" {
		t.Errorf("told of %q", accepted)
	}
}
