package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/status"
)

// fleet is hosts in racks of forty, all of them at work but one of a hundred.
func fleet(n int) []HostLine {
	hosts := make([]HostLine, n)
	for i := range hosts {
		hosts[i].Host = status.Host{Namespace: "prod", Name: fmt.Sprintf("host-%d", i+1), FailureDomain: fmt.Sprintf("rack-%d", i/40+1), State: status.State{Role: status.OK, Word: "Running"}, Connected: true,
			ClaimedBy: fmt.Sprintf("prod-%d/worker-%d", i%50, i), Addresses: []string{fmt.Sprintf("10.0.%d.%d", i/250, i%250)}}
		if i%100 == 99 {
			hosts[i].State = status.State{Role: status.Bad, Word: "HostQuarantined"}
		}
	}
	return hosts
}

func shownIn(v Hosts) []string {
	var all []string
	for _, h := range v.Shown {
		all = append(all, h.Name)
	}
	return all
}

func TestHostsByDomain(t *testing.T) {
	is := func(role status.Role, word string) status.State { return status.State{Role: role, Word: word} }
	hosts := []HostLine{
		{Host: status.Host{Name: "a", FailureDomain: "rack-10", State: is(status.OK, "Running"), Connected: true, ClaimedBy: "prod/cp-1"}, Cluster: "prod", Version: "v1.36.3"},
		{Host: status.Host{Name: "b", State: is(status.Free, "Available"), Connected: true, Addresses: []string{"192.0.2.7"}}},
		{Host: status.Host{Name: "c", FailureDomain: "rack-2", State: is(status.Free, "Available")}},
		{Host: status.Host{Name: "d", FailureDomain: "rack-2", State: is(status.Bad, "OperationFailed"), Connected: true}},
		{Host: status.Host{Name: "e", FailureDomain: "rack-2", State: is(status.Wait, "HostNotApproved"), Connected: true}},
		{Host: status.Host{Name: "f", FailureDomain: "rack-2", State: is(status.Bad, "HostDisconnected")}},
	}
	v := HostsOf(hosts, HostFilter{})
	if got := strings.Join(shownIn(v), ""); got != "cdefab" {
		t.Errorf("order %s", got)
	}
	if v.Total != 6 || v.Connected != 4 || v.Attention != 3 || !slices.Equal(v.DomainNames, []string{"rack-2", "rack-10", NoDomain}) || !slices.Equal(v.ClusterNames, []string{"prod"}) || !slices.Equal(v.Versions, []string{"v1.36.3"}) {
		t.Errorf("%+v", v)
	}
	for want, filter := range map[string]HostFilter{
		"a": {Text: "CP-1"}, "b": {Text: "192.0.2"}, "cb": {State: "Available"}, "cdef": {Domain: "rack-2"}, "d": {Attention: true, State: "OperationFailed"}, "": {Text: "nobody"},
	} {
		v := HostsOf(hosts, filter)
		if !filter.Narrow() {
			t.Fatal("an empty filter")
		}
		if got := strings.Join(shownIn(v), ""); got != want {
			t.Errorf("%+v shows %q, want %q", filter, got, want)
		}
		if v.Total != 6 {
			t.Errorf("%+v counts only %d", filter, v.Total)
		}
	}
	for _, filter := range []HostFilter{{Cluster: "prod"}, {Version: "v1.36.3"}} {
		if v := HostsOf(hosts, filter); !slices.Equal(shownIn(v), []string{"a"}) {
			t.Errorf("%+v shows %v", filter, shownIn(v))
		}
	}
	if v := HostsOf(hosts, HostFilter{Domain: NoDomain}); !slices.Equal(shownIn(v), []string{"b"}) {
		t.Errorf("without a domain: %v", shownIn(v))
	}
	racks := HostsOf(hosts, HostFilter{Racks: true})
	if d := racks.Domains[0]; len(racks.Domains) != 3 || d.Name != "rack-2" || d.Free != 1 || d.Attention != 3 || d.Bar.Text != "1 free of 4" || !racks.Squares ||
		!slices.Equal(d.Bar.Parts, []Part{{status.Wait, 0, 1}, {status.Bad, 1, 2}, {status.Free, 3, 1}}) {
		t.Errorf("racks: %+v", racks.Domains)
	}
}

func TestEveryHostIsOnOnePage(t *testing.T) {
	hosts := fleet(5000)
	seen := map[string]int{}
	pages := HostsOf(hosts, HostFilter{}).Pager.Pages
	for page := range pages {
		v := HostsOf(hosts, HostFilter{Page: page + 1})
		if n := len(v.Shown); n > PageSize || n != v.Pager.Last-v.Pager.First+1 {
			t.Errorf("page %d has %d hosts: %+v", page+1, n, v.Pager)
		}
		for _, name := range shownIn(v) {
			seen[name]++
		}
	}
	if len(seen) != len(hosts) || pages != 21 {
		t.Errorf("%d hosts on %d pages", len(seen), pages)
	}
	for _, page := range []int{-1, 0, 99} {
		if v := HostsOf(hosts, HostFilter{Page: page}); len(v.Shown) == 0 || v.Pager.Page < 1 || v.Pager.Page > pages {
			t.Errorf("page %d: %+v", page, v.Pager)
		}
	}
	if v := HostsOf(nil, HostFilter{Page: 3}); v.Pager.Page != 1 || v.Pager.First != 0 {
		t.Errorf("no hosts: %+v", v.Pager)
	}
}
