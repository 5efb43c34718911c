package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/status"
)

// fleet is hosts in racks of forty, all of them at work but one of a hundred.
func fleet(n int) []status.Host {
	hosts := make([]status.Host, n)
	for i := range hosts {
		hosts[i] = status.Host{Namespace: "prod", Name: fmt.Sprintf("host-%d", i+1), FailureDomain: fmt.Sprintf("rack-%d", i/40+1), State: status.State{Role: status.OK, Word: "Running"}, Connected: true,
			ClaimedBy: fmt.Sprintf("prod-%d/worker-%d", i%50, i), Addresses: []string{fmt.Sprintf("10.0.%d.%d", i/250, i%250)}}
		if i%100 == 99 {
			hosts[i].State = status.State{Role: status.Bad, Word: "HostQuarantined"}
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
	is := func(role status.Role, word string) status.State { return status.State{Role: role, Word: word} }
	hosts := []status.Host{
		{Name: "a", FailureDomain: "rack-10", State: is(status.OK, "Running"), Connected: true, ClaimedBy: "prod/cp-1"},
		{Name: "b", State: is(status.Free, "Available"), Connected: true, Addresses: []string{"192.0.2.7"}},
		{Name: "c", FailureDomain: "rack-2", State: is(status.Free, "Available")},
		{Name: "d", FailureDomain: "rack-2", State: is(status.Bad, "OperationFailed"), Connected: true},
		{Name: "e", FailureDomain: "rack-2", State: is(status.Wait, "HostNotApproved"), Connected: true},
		{Name: "f", FailureDomain: "rack-2", State: is(status.Bad, "HostDisconnected")},
	}
	f := FleetOf(hosts, FleetFilter{})
	if got := strings.Join(names(f), ""); got != "cdefab" {
		t.Errorf("order %s", got)
	}
	if f.Total != 6 || f.Connected != 4 || f.Attention != 3 || f.Domains[0] != (Domain{Name: "rack-2", Hosts: 4, Connected: 2, Attention: 3, Free: 1}) {
		t.Errorf("%+v", f)
	}
	for want, filter := range map[string]FleetFilter{
		"a": {Text: "CP-1"}, "b": {Text: "192.0.2"}, "cb": {State: "Available"}, "cdef": {Domain: "rack-2"}, "d": {Attention: true, State: "OperationFailed"}, "": {Text: "nobody"},
	} {
		f := FleetOf(hosts, filter)
		if filter.Domain == "" && filter.Text == "" && filter.State == "" {
			t.Fatal("an empty filter")
		}
		if got := strings.Join(names(f), ""); got != want {
			t.Errorf("%+v shows %q, want %q", filter, got, want)
		}
		if f.Total != 6 {
			t.Errorf("%+v counts only %d", filter, f.Total)
		}
	}
	if f := FleetOf(hosts, FleetFilter{Domain: NoDomain}); !slices.Equal(names(f), []string{"b"}) {
		t.Errorf("without a domain: %v", names(f))
	}
}

func TestEveryHostIsOnOnePage(t *testing.T) {
	hosts := fleet(5000)
	seen := map[string]int{}
	pages := FleetOf(hosts, FleetFilter{}).Pager.Pages
	for page := range pages {
		f := FleetOf(hosts, FleetFilter{Page: page + 1})
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
		if f := FleetOf(hosts, FleetFilter{Page: page}); len(names(f)) == 0 || f.Pager.Page < 1 || f.Pager.Page > pages {
			t.Errorf("page %d: %+v", page, f.Pager)
		}
	}
	if f := FleetOf(nil, FleetFilter{Page: 3}); f.Pager.Page != 1 || f.Pager.First != 0 {
		t.Errorf("no hosts: %+v", f.Pager)
	}
}
