package link

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/hostos/inventory"
)

func TestPassingFollowsHeartbeats(t *testing.T) {
	for heartbeats, want := range map[time.Duration]time.Duration{
		5 * time.Second: time.Second, 10 * time.Second: time.Second, 80 * time.Second: 8 * time.Second, 420 * time.Second: maxPassingDelay,
	} {
		if got := passing(heartbeats); got != want {
			t.Errorf("heartbeats every %s: steps wait %s, want %s", heartbeats, got, want)
		}
	}
}

// The node is reported together with an inventory that was read after its identity was decided: an earlier
// one has another host name, and the host would seem renamed.
func TestNodeIsReportedWithItsInventory(t *testing.T) {
	j, name := journal.InMemory(), "before"
	a := &Agent{options: Options{Journal: j, Inventory: func(context.Context, inventory.Node) (inventory.Facts, error) {
		return inventory.Facts{Inventory: infrav1.HostInventory{KernelVersion: name}}, nil
	}}, recollect: make(chan struct{}, 1)}
	a.reporter = newReporter(nil, "ns", "h", slog.New(slog.DiscardHandler), nil)
	a.collect(t.Context())
	a.changed(nil)
	name = "renamed by the bootstrap"
	if err := j.Update(func(s *journal.State) { s.Node = &journal.Node{Name: "n", HostName: name} }); err != nil {
		t.Fatal(err)
	}
	a.changed(nil)
	if a.reporter.wanted.Node != nil || len(a.recollect) != 1 {
		t.Fatalf("reported %+v with the inventory %q; the next one is asked for: %t", a.reporter.wanted.Node, a.reporter.wanted.Inventory.KernelVersion, len(a.recollect) == 1)
	}
	a.collect(t.Context())
	a.report()
	if got := a.reporter.wanted; got.Node == nil || got.Node.HostName != got.Inventory.KernelVersion {
		t.Errorf("reported %+v with the inventory %q", got.Node, got.Inventory.KernelVersion)
	}
}

// A host that is renamed, or loses an address, is reported within seconds; the rest of the inventory, and
// what cannot be read at the moment, waits for its time.
func TestIdentityIsReportedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		identity, readable, reads := "host-1 192.0.2.1", error(nil), 0
		a := &Agent{options: Options{Journal: journal.InMemory(), Inventory: func(context.Context, inventory.Node) (inventory.Facts, error) {
			mu.Lock()
			defer mu.Unlock()
			reads++
			return inventory.Facts{}, nil
		}, Identity: func(context.Context, inventory.Node) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			return identity, readable
		}}, recollect: make(chan struct{}, 1)}
		a.reporter = newReporter(nil, "ns", "h", slog.New(slog.DiscardHandler), nil)
		go a.refresh(t.Context(), a.collect(t.Context()))
		for _, c := range []struct {
			what     string
			identity string
			readable error
			after    time.Duration
			reads    int
		}{
			{"the same", identity, nil, time.Minute, 1},
			{"renamed", "host-2 192.0.2.1", nil, identityInterval, 2},
			{"unreadable", "host-2", errors.New("no"), time.Minute, 2},
			{"another address", "host-2 192.0.2.2", nil, identityInterval, 3},
			{"the same for long", "host-2 192.0.2.2", nil, inventoryInterval, 4},
		} {
			mu.Lock()
			identity, readable = c.identity, c.readable
			mu.Unlock()
			time.Sleep(c.after + time.Second)
			synctest.Wait()
			mu.Lock()
			if reads != c.reads {
				t.Errorf("%s: the inventory was read %d times, want %d", c.what, reads, c.reads)
			}
			mu.Unlock()
		}
	})
}

func TestWhatWasFoundIsReported(t *testing.T) {
	facts := inventory.Facts{
		Inventory: infrav1.HostInventory{MachineID: "id"}, Software: infrav1.HostSoftware{Management: infrav1.HostSoftwareManaged}, Capacity: corev1.ResourceList{corev1.ResourceCPU: {}},
		Addresses: []clusterv1.MachineAddress{{Address: "192.0.2.1"}}, Services: []infrav1.HostService{{Name: "kubelet", State: "failed"}},
		LowDisk: &infrav1.HostLowDisk{Path: "/"}, RebootRequired: &infrav1.HostRebootRequired{KernelVersion: "6.1.0-31-amd64"}, EndpointFailure: &infrav1.HostEndpointFailure{Server: "https://192.0.2.9"}, KubeletCertificateExpires: &metav1.Time{},
	}
	all, reported := reflect.ValueOf(facts), reflect.ValueOf(status(facts, "boot", journal.State{}, nil))
	for i := range all.NumField() {
		name := all.Type().Field(i).Name
		if all.Field(i).IsZero() || !reflect.DeepEqual(all.Field(i).Interface(), reported.FieldByName(name).Interface()) {
			t.Errorf("of %s = %+v the report has %+v", name, all.Field(i), reported.FieldByName(name))
		}
	}
	found := []string{"process kubelet (PID 7)"}
	if got := status(inventory.Facts{}, "boot", journal.State{Found: found}, nil).Residue; !slices.Equal(got, found) {
		t.Errorf("residue %q, want %q", got, found)
	}
}

// From a reset on, a host is no node any more, however the reset ends; when it is tried again is told while it is.
func TestFailedResetIsReported(t *testing.T) {
	op := &journal.Operation{Phase: infrav1.HostDesiredReset, State: infrav1.OperationFailed, Message: "listener (tried 5 times)", NextTry: time.Unix(0, 0)}
	state := journal.State{ClaimGeneration: 2, ClaimID: "a", BootstrappedClaimID: "a", Residue: journal.ResidueCommands, ResetGeneration: 1, Operation: op}
	if got := status(inventory.Facts{}, "boot", state, nil).Record.State; got != infrav1.HostRecordNode {
		t.Errorf("before its reset: %s", got)
	}
	state.ResetGeneration = 2
	got := status(inventory.Facts{}, "boot", state, nil)
	if got.Record.State != infrav1.HostRecordRemains || got.ObservedOperation.Message != "listener (tried 5 times); the agent goes on, next at 1970-01-01T00:00:00Z" {
		t.Errorf("%+v; %s", got.Record, got.ObservedOperation.Message)
	}
	op.NextTry = time.Time{}
	if got := status(inventory.Facts{}, "boot", state, nil).ObservedOperation.Message; got != op.Message {
		t.Errorf("%s", got)
	}
}

// The virtual address counts in any form, and the interfaces of before only while the host is a node.
func TestNodeOf(t *testing.T) {
	ip := netip.MustParseAddr("192.0.2.7")
	state := journal.State{VirtualIP: "fd00:0::200", Node: &journal.Node{IPs: []netip.Addr{ip}}, Baseline: &journal.Baseline{Interfaces: []string{"eth0"}}, Residue: journal.ResidueNone}
	node := nodeOf(state)
	if node.VirtualIP != netip.MustParseAddr("fd00::200") || !slices.Equal(node.IPs, []netip.Addr{ip}) || node.Before != nil {
		t.Errorf("of a clean host: %+v", node)
	}
	state.Residue = journal.ResidueCommands
	if node := nodeOf(state); !slices.Equal(node.Before, []string{"eth0"}) {
		t.Errorf("of a node: %+v", node)
	}
}
