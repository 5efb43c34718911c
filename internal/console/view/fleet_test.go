package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/snapshot"
	"github.com/slipway-dev/slipway/internal/status"
)

// fleet is hosts in racks of forty, all of them at work but one of a hundred.
func fleet(n int) []status.Host {
	hosts := make([]status.Host, n)
	for i := range hosts {
		hosts[i] = status.Host{Namespace: "prod", Name: fmt.Sprintf("host-%d", i+1), FailureDomain: fmt.Sprintf("rack-%d", i/40+1), Phase: "Running", Connected: true,
			ClaimedBy: fmt.Sprintf("prod-%d/worker-%d", i%50, i), Addresses: []string{fmt.Sprintf("10.0.%d.%d", i/250, i%250)}}
		if i%100 == 99 {
			hosts[i].Phase = "Quarantined"
		}
	}
	return hosts
}

func names(f Fleet) []string {
	var all []string
	for _, rack := range f.Racks {
		for _, cell := range rack.Hosts {
			all = append(all, cell.Name)
		}
	}
	return all
}

func TestFleetByDomain(t *testing.T) {
	hosts := []status.Host{
		{Name: "a", FailureDomain: "rack-10", Phase: "Running", Connected: true, ClaimedBy: "prod/cp-1"},
		{Name: "b", Phase: "Available", Connected: true, Addresses: []string{"192.0.2.7"}},
		{Name: "c", FailureDomain: "rack-2", Phase: "Available"},
		{Name: "d", FailureDomain: "rack-2", Phase: "Failed", Connected: true},
		{Name: "e", FailureDomain: "rack-2", Phase: "Enrolling", Approval: "Pending", Connected: true},
		{Name: "f", FailureDomain: "rack-2"},
	}
	f := FleetOf(hosts, nil, FleetFilter{})
	if got := strings.Join(names(f), ""); got != "cdefab" {
		t.Errorf("order %s", got)
	}
	if f.Total != 6 || f.Connected != 4 || f.Attention != 4 || f.Domains[0] != (Domain{Name: "rack-2", Hosts: 4, Connected: 2, Attention: 4, Free: 1}) {
		t.Errorf("%+v", f)
	}
	for want, filter := range map[string]FleetFilter{
		"a": {Text: "CP-1"}, "b": {Text: "192.0.2"}, "cb": {Phase: "Available"}, "cdef": {Domain: "rack-2"}, "d": {Attention: true, Phase: "Failed"}, "": {Text: "nobody"},
	} {
		f := FleetOf(hosts, nil, filter)
		if filter.Domain == "" && filter.Text == "" && filter.Phase == "" {
			t.Fatal("an empty filter")
		}
		if got := strings.Join(names(f), ""); got != want {
			t.Errorf("%+v shows %q, want %q", filter, got, want)
		}
		if f.Total != 6 {
			t.Errorf("%+v counts only %d", filter, f.Total)
		}
	}
	if f := FleetOf(hosts, nil, FleetFilter{Domain: NoDomain}); !slices.Equal(names(f), []string{"b"}) {
		t.Errorf("without a domain: %v", names(f))
	}
}

func TestEveryHostIsOnOnePage(t *testing.T) {
	hosts := fleet(5000)
	seen := map[string]int{}
	pages := FleetOf(hosts, nil, FleetFilter{}).Pager.Pages
	for page := range pages {
		f := FleetOf(hosts, nil, FleetFilter{Page: page + 1})
		if n := len(names(f)); n > PageSize || n != f.Pager.Last-f.Pager.First+1 {
			t.Errorf("page %d has %d hosts: %+v", page+1, n, f.Pager)
		}
		for _, name := range names(f) {
			seen[name]++
		}
	}
	if len(seen) != len(hosts) || pages != 21 {
		t.Errorf("%d hosts on %d pages", len(seen), pages)
	}
	for _, page := range []int{-1, 0, 99} {
		if f := FleetOf(hosts, nil, FleetFilter{Page: page}); len(names(f)) == 0 || f.Pager.Page < 1 || f.Pager.Page > pages {
			t.Errorf("page %d: %+v", page, f.Pager)
		}
	}
	if f := FleetOf(nil, nil, FleetFilter{Page: 3}); f.Pager.Page != 1 || f.Pager.First != 0 {
		t.Errorf("no hosts: %+v", f.Pager)
	}
}

// A host needs attention when doctor has an error or a warning about it; a note, such as one of
// maintenance, is none.
func TestAttentionOfFindings(t *testing.T) {
	host := func(name string, conditions ...metav1.Condition) infrav1.Host {
		h := infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
		h.Status.Conditions = append(slices.Clone(conditions), metav1.Condition{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionTrue})
		return h
	}
	condition := func(kind, status, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: "m"}
	}
	cordoned := host("cordoned")
	cordoned.Spec.Unschedulable = ptr.To(true)
	hosts := []infrav1.Host{
		host("fine"), cordoned,
		host("cloned", condition(infrav1.DuplicateIdentityCondition, "True", "x")),
		host("late", condition(infrav1.ClockSkewedCondition, "True", "x")),
		host("old", condition(infrav1.AgentSupportedCondition, "False", infrav1.HostAgentTooOldReason)),
		host("orphan", condition(clusterv1.ReadyCondition, "False", infrav1.HostOrphanedClaimReason)),
		host("waiting", condition(infrav1.ReleaseHooksPassedCondition, "False", infrav1.HooksBlockedReason)),
	}
	o := &snapshot.Snapshot{Hosts: append(hosts, host("node"), host("starts"))}
	for name, age := range map[string]time.Duration{"node": 2 * time.Minute, "starts": 0} {
		m := infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "of-" + name}}
		m.Status.HostRef.Name = name
		m.Status.Conditions = []metav1.Condition{condition(clusterv1.ReadyCondition, "True", "x")}
		machine := clusterv1.Machine{ObjectMeta: m.ObjectMeta}
		machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachine", Name: m.Name}
		machine.Status.NodeRef.Name = name
		unready := condition(clusterv1.MachineNodeReadyCondition, "Unknown", clusterv1.MachineNodeReadyUnknownReason)
		unready.LastTransitionTime = metav1.NewTime(time.Now().Add(-age))
		machine.Status.Conditions = []metav1.Condition{unready}
		o.HostMachines, o.Machines = append(o.HostMachines, m), append(o.Machines, machine)
	}
	f := FleetOf(status.HostsOf(o.Hosts, status.Scope{}), doctor.OfHosts(o, time.Now()), FleetFilter{Attention: true})
	if got, want := names(f), []string{"cloned", "late", "node", "old", "orphan", "waiting"}; !slices.Equal(got, want) || f.Attention != len(want) {
		t.Errorf("attention: %d, %q, want %q", f.Attention, got, want)
	}
}
