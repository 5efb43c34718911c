package agentrollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agentrollout"
	"github.com/slipway-dev/slipway/internal/host"
)

const (
	older, current, newer = "v0.9.0", "v0.9.1", "v0.10.0"
	digest, mended        = "sha256:first", "sha256:mended"
)

var wanted = infrav1.HostAgentSpec{Version: current, ReleaseDigest: digest}

type change func(*agentrollout.Host)

// at is an able host of a failure domain that runs the older version.
func at(domain, name string, changes ...change) agentrollout.Host {
	h := agentrollout.Host{
		Key: types.NamespacedName{Namespace: "ns", Name: name}, Domain: domain, Architecture: "amd64", Managed: true,
		Agent: host.Agent{Version: older}, Connected: true, Approved: true,
	}
	for _, c := range changes {
		c(&h)
	}
	return h
}

func asked(h *agentrollout.Host)    { h.Agent.Asked = wanted }
func runs(h *agentrollout.Host)     { h.Agent.Version = current }
func updated(h *agentrollout.Host)  { asked(h); runs(h) }
func away(h *agentrollout.Host)     { h.Connected = false }
func claimed(h *agentrollout.Host)  { h.Claimed = true }
func busy(h *agentrollout.Host)     { h.Busy = true }
func paused(h *agentrollout.Host)   { h.Paused = true }
func pending(h *agentrollout.Host)  { h.Approved = false }
func provided(h *agentrollout.Host) { h.Managed = false }
func failed(h *agentrollout.Host) {
	asked(h)
	h.Agent.Report = infrav1.HostAgentUpdate{Version: current, ReleaseDigest: digest, State: infrav1.HostAgentUpdateFailed, Message: "it did not report"}
}

func trying(h *agentrollout.Host) {
	updated(h)
	h.Agent.Report = infrav1.HostAgentUpdate{Version: current, ReleaseDigest: digest, State: infrav1.HostAgentUpdateTrying}
}

func controlPlane(cluster string) change {
	return func(h *agentrollout.Host) {
		h.Claimed, h.ControlPlane = true, types.NamespacedName{Namespace: "ns", Name: cluster}
	}
}

func version(v string) change { return func(h *agentrollout.Host) { h.Agent.Version = v } }

// many are able hosts of a failure domain.
func many(domain string, n int, changes ...change) []agentrollout.Host {
	hosts := make([]agentrollout.Host, 0, n)
	for i := range n {
		hosts = append(hosts, at(domain, fmt.Sprintf("%s-%03d", domain, i), changes...))
	}
	return hosts
}

func rollout(hosts ...agentrollout.Host) agentrollout.Rollout {
	return agentrollout.Rollout{
		Release:        infrav1.AgentReleaseSpec{Version: current, Digest: digest, Architectures: []string{"amd64", "arm64"}},
		ManagerVersion: current, Hosts: hosts,
	}
}

func names(keys []types.NamespacedName) string {
	list := make([]string, 0, len(keys))
	for _, k := range keys {
		list = append(list, k.Name)
	}
	return strings.Join(list, " ")
}

// proven is a host elsewhere that has updated: the first one has gone.
var proven = at("z", "z-proven", updated)

func TestWhoIsAsked(t *testing.T) {
	for name, tc := range map[string]struct {
		hosts  []agentrollout.Host
		ask    string
		domain string
		begins bool
		// held is "host: why" of some that are not asked.
		held []string
	}{
		"nobody":                                   {},
		"the first one alone":                      {hosts: many("a", 8), ask: "a-000", domain: "a", begins: true, held: []string{"a-001: ns/a-000 goes first, alone"}},
		"a free one first, wherever it is":         {hosts: []agentrollout.Host{at("a", "1", claimed), at("b", "2", claimed), at("b", "3")}, ask: "3", domain: "b", begins: true},
		"an idle one first":                        {hosts: []agentrollout.Host{at("a", "1", busy), at("a", "2")}, ask: "2", domain: "a", begins: true},
		"a free one, though it is busy":            {hosts: []agentrollout.Host{at("a", "1", claimed), at("a", "2", busy)}, ask: "2", domain: "a", begins: true},
		"the first one that is connected":          {hosts: []agentrollout.Host{at("a", "1", away), at("b", "2")}, ask: "2", domain: "b", begins: true, held: []string{"1: its agent is not connected"}},
		"nobody beside the first":                  {hosts: append(many("a", 8), at("a", "first", asked)), domain: "a", held: []string{"a-000: ns/first goes first, alone"}},
		"nobody while the first one tries":         {hosts: append(many("a", 8), at("a", "first", trying)), domain: "a"},
		"another first one when it got lost":       {hosts: append(many("a", 8), at("a", "first", asked, away)), ask: "a-000", domain: "a"},
		"no third one":                             {hosts: append(many("a", 8), at("a", "x", asked, away), at("a", "y", asked, away)), held: []string{"a-000: 2 hosts that were asked are not connected since"}},
		"a version from elsewhere proves nothing":  {hosts: append(many("a", 8), at("a", "first", runs)), ask: "a-000", domain: "a", begins: true},
		"another bundle proves nothing":            {hosts: append(many("a", 8), at("a", "x", updated, func(h *agentrollout.Host) { h.Agent.Asked.ReleaseDigest = mended })), ask: "a-000", domain: "a", begins: true},
		"a quarter of the failure domain":          {hosts: append(many("a", 12), proven), ask: "a-000 a-001 a-002", domain: "a", begins: true, held: []string{"a-003: as many of its failure domain update as may at once"}},
		"one of three":                             {hosts: append(many("a", 3), proven), ask: "a-000", domain: "a", begins: true},
		"up to the quarter":                        {hosts: append(many("a", 10), at("a", "x", asked), at("a", "y", updated), proven), ask: "a-000 a-001", domain: "a"},
		"not above it":                             {hosts: append(many("a", 6), at("a", "x", asked), at("a", "y", trying), proven), domain: "a"},
		"idle ones first in the domain":            {hosts: []agentrollout.Host{at("a", "1", busy), at("a", "2"), proven}, ask: "2", domain: "a", begins: true},
		"busy ones, too":                           {hosts: []agentrollout.Host{at("a", "1", busy), proven}, ask: "1", domain: "a", begins: true},
		"the failure domain that has begun":        {hosts: []agentrollout.Host{at("a", "1"), at("b", "2"), at("b", "3", runs), proven}, ask: "2", domain: "b", begins: true, held: []string{"1: failure domain b goes first"}},
		"one that has a lost host has begun":       {hosts: []agentrollout.Host{at("a", "1"), at("b", "2"), at("b", "3", asked, away), proven}, ask: "2", domain: "b"},
		"the first by name":                        {hosts: []agentrollout.Host{at("b", "1"), at("a", "2"), proven}, ask: "2", domain: "a", begins: true},
		"those without a failure domain last":      {hosts: []agentrollout.Host{at("", "1"), at("b", "2"), proven}, ask: "2", domain: "b", begins: true},
		"those without a failure domain":           {hosts: []agentrollout.Host{at("", "1"), proven}, ask: "1", begins: true},
		"no second failure domain":                 {hosts: []agentrollout.Host{at("a", "1"), at("b", "2", asked), proven}, domain: "b", held: []string{"1: failure domain b goes first"}},
		"a failure domain that waits for a busy":   {hosts: []agentrollout.Host{at("a", "1"), at("b", "2", asked, busy), proven}, domain: "b"},
		"nobody while two failure domains update":  {hosts: append(many("b", 8), at("a", "1", asked), at("b", "2", asked), proven), domain: "a", held: []string{"b-000: hosts of several failure domains update"}},
		"the next one, past hosts that are away":   {hosts: []agentrollout.Host{at("a", "1", away), at("a", "2", asked, away), at("b", "3"), proven}, ask: "3", domain: "b", begins: true},
		"the next one, past hosts to approve":      {hosts: []agentrollout.Host{at("a", "1", pending), at("b", "2"), proven}, ask: "2", domain: "b", begins: true, held: []string{"1: it is not approved"}},
		"the next one, past hosts that are paused": {hosts: []agentrollout.Host{at("a", "1", paused), at("b", "2"), proven}, ask: "2", domain: "b", begins: true, held: []string{"1: it is paused"}},
		"a late one of a former failure domain":    {hosts: []agentrollout.Host{at("b", "1"), at("a", "late"), at("a", "2", updated)}, ask: "late", domain: "a"},
		"one that was asked for another bundle":    {hosts: []agentrollout.Host{at("a", "1", func(h *agentrollout.Host) { asked(h); h.Agent.Asked.ReleaseDigest = mended }), proven}, ask: "1", domain: "a", begins: true},
		"another architecture":                     {hosts: []agentrollout.Host{at("a", "1", func(h *agentrollout.Host) { h.Architecture = "riscv64" }), proven}},
		"hosts that do not take part": {hosts: []agentrollout.Host{at("a", "1", provided), at("a", "2", version("")), at("a", "3", version("today")), at("a", "4", version("v0.0.0-dev")),
			at("a", "5", func(h *agentrollout.Host) { h.Deleting = true }), proven}},
		"one host of a control plane": {hosts: []agentrollout.Host{
			at("a", "1", controlPlane("c")), at("a", "2", controlPlane("c")), at("a", "3", controlPlane("d")), at("a", "4"), at("a", "5"), at("a", "6"), at("a", "7"), at("a", "8"),
			at("a", "9", runs), at("a", "10", runs), at("a", "11", runs), at("a", "12", runs), proven,
		}, ask: "1 3 4", domain: "a", begins: true, held: []string{"2: ns/1 of the same control plane goes first"}},
		"no control plane of which one is lost": {hosts: []agentrollout.Host{at("a", "1", controlPlane("c"), asked, away), at("a", "2", controlPlane("c")), at("b", "3"), proven},
			ask: "3", domain: "b", begins: true, held: []string{"2: ns/1 of the same control plane goes first"}},
		"nobody after a failure":       {hosts: append(many("a", 8), at("b", "x", failed), proven), held: []string{"a-000: the update failed on ns/x"}},
		"whoever failed, mended since": {hosts: append(many("a", 8), at("b", "x", failed, runs), proven), ask: "a-000 a-001", domain: "a", begins: true},
	} {
		t.Run(name, func(t *testing.T) {
			plan := agentrollout.Make(rollout(tc.hosts...))
			if names(plan.Ask) != tc.ask || plan.Domain != tc.domain || plan.Begins != tc.begins {
				t.Errorf("asks %q of %q, begins %t; want %q of %q, %t\n%s", names(plan.Ask), plan.Domain, plan.Begins, tc.ask, tc.domain, tc.begins, plan.Condition.Message)
			}
			var held []string
			for _, h := range plan.Held {
				held = append(held, h.Host.Name+": "+h.Why)
			}
			for _, want := range tc.held {
				if !slices.Contains(held, want) {
					t.Errorf("%q is not in %q", want, held)
				}
			}
			if len(plan.Ask)+len(plan.Held) > len(tc.hosts) {
				t.Errorf("asks %d and holds %d of %d", len(plan.Ask), len(plan.Held), len(tc.hosts))
			}
		})
	}
}

func TestLimitsOfLargeFleets(t *testing.T) {
	hosts := append(many("a", 1000), proven)
	if plan := agentrollout.Make(rollout(hosts...)); len(plan.Ask) != 50 {
		t.Errorf("asks %d hosts of a failure domain of 1000 at once", len(plan.Ask))
	}
	// Of many that updated, some may be lost, and no more.
	for lost, want := range map[int]bool{3: true, 4: false} {
		hosts := slices.Concat(many("a", 30, updated), many("b", lost, asked, away), many("c", 8))
		if plan := agentrollout.Make(rollout(hosts...)); len(plan.Ask) > 0 != want {
			t.Errorf("%d of 30 lost: asks %q", lost, names(plan.Ask))
		}
	}
}

func TestCondition(t *testing.T) {
	halt := func(r *agentrollout.Rollout) { r.Hosts[0] = at("a", "a-000", failed) }
	pause := func(r *agentrollout.Rollout) { r.Release.Paused = ptr.To(true) }
	all := func(c change) func(*agentrollout.Rollout) {
		return func(r *agentrollout.Rollout) {
			for i := range r.Hosts {
				c(&r.Hosts[i])
			}
		}
	}
	for name, tc := range map[string]struct {
		change []func(*agentrollout.Rollout)
		reason string
		says   []string
		// counts are hosts, updated, failed.
		counts [3]int32
	}{
		"it begins": {nil, infrav1.AgentReleaseRollingOutReason,
			[]string{"0 of 8 hosts run slipway-agent v0.9.1 or newer", "Failure domain a goes now; waiting for ns/a-000. If that lasts, condition AgentUpdated of the Host tells why"}, [3]int32{8, 0, 0}},
		"nobody can be asked": {[]func(*agentrollout.Rollout){all(away)}, infrav1.AgentReleaseRollingOutReason,
			[]string{"Waiting for ns/a-000 (its agent is not connected), ns/a-001 (its agent is not connected), ns/a-002 (its agent is not connected) and 5 more", "`slipway doctor`"}, [3]int32{8, 0, 0}},
		"one is lost, the others are done": {[]func(*agentrollout.Rollout){all(updated), func(r *agentrollout.Rollout) { r.Hosts[0] = at("a", "a-000", asked, away) }}, infrav1.AgentReleaseRollingOutReason,
			[]string{"7 of 8", "ns/a-000 (it was asked and is not connected since)"}, [3]int32{8, 7, 0}},
		"too many are lost": {[]func(*agentrollout.Rollout){func(r *agentrollout.Rollout) {
			r.Hosts[0], r.Hosts[1] = at("a", "a-000", asked, away), at("a", "a-001", asked, away)
		}}, infrav1.AgentReleaseRollingOutReason,
			[]string{"Waiting for ns/a-000, ns/a-001: they were asked", "power and network", "delete the Host"}, [3]int32{8, 0, 0}},
		"one failed": {[]func(*agentrollout.Rollout){halt}, infrav1.AgentReleaseHaltedReason,
			[]string{"Host ns/a-000 went back to v0.9.0 (it did not report) after it tried v0.9.1; no other host is asked", "journalctl -u slipway-agent", "`slipway bundle load`"}, [3]int32{8, 0, 1}},
		"one failed, and it is paused":               {[]func(*agentrollout.Rollout){halt, pause}, infrav1.AgentReleaseHaltedReason, nil, [3]int32{8, 0, 1}},
		"one failed, and the bundle was loaded anew": {[]func(*agentrollout.Rollout){halt, func(r *agentrollout.Rollout) { r.Release.Digest = mended }}, infrav1.AgentReleaseRollingOutReason, nil, [3]int32{8, 0, 0}},
		"paused": {[]func(*agentrollout.Rollout){pause}, infrav1.AgentReleasePausedReason,
			[]string{"no other host is asked", `kubectl patch agentreleases.infrastructure.slipway.dev v0.9.1 --type=merge -p '{"spec":{"paused":false}}'`}, [3]int32{8, 0, 0}},
		"done":                                   {[]func(*agentrollout.Rollout){all(updated)}, infrav1.AgentReleaseRolledOutReason, []string{"8 of 8"}, [3]int32{8, 8, 0}},
		"done by newer ones, while it is paused": {[]func(*agentrollout.Rollout){all(version(newer)), pause}, infrav1.AgentReleaseRolledOutReason, nil, [3]int32{8, 8, 0}},
		"nobody takes part":                      {[]func(*agentrollout.Rollout){all(provided)}, infrav1.AgentReleaseRolledOutReason, []string{"No host has an agent that updates itself"}, [3]int32{}},
		"of a newer version than the manager": {[]func(*agentrollout.Rollout){func(r *agentrollout.Rollout) { r.ManagerVersion = older }}, infrav1.AgentReleaseNotOfManagerReason,
			[]string{"of version v0.9.0", "Upgrade slipway-manager to v0.9.1"}, [3]int32{}},
		"of an older version": {[]func(*agentrollout.Rollout){func(r *agentrollout.Rollout) { r.ManagerVersion = newer }}, infrav1.AgentReleaseNotOfManagerReason,
			[]string{"Nothing is to be done"}, [3]int32{}},
		"of a manager without a version": {[]func(*agentrollout.Rollout){func(r *agentrollout.Rollout) { r.ManagerVersion = "(devel)" }}, infrav1.AgentReleaseNotOfManagerReason,
			[]string{`"(devel)", which is no release`}, [3]int32{}},
		"of a manager that is a development build, as the release": {[]func(*agentrollout.Rollout){func(r *agentrollout.Rollout) {
			r.ManagerVersion, r.Release.Version = "v0.0.0-dev", "v0.0.0-dev"
		}}, infrav1.AgentReleaseNotOfManagerReason, nil, [3]int32{}},
	} {
		t.Run(name, func(t *testing.T) {
			r := rollout(many("a", 8)...)
			for _, c := range tc.change {
				c(&r)
			}
			plan := agentrollout.Make(r)
			c := plan.Condition
			if c.Type != infrav1.AgentReleaseRolledOutCondition || c.Reason != tc.reason || (c.Status == metav1.ConditionTrue) != (tc.reason == infrav1.AgentReleaseRolledOutReason) {
				t.Errorf("condition %+v, want reason %s", c, tc.reason)
			}
			if got := [3]int32{plan.Hosts, plan.Updated, plan.Failed}; got != tc.counts {
				t.Errorf("counts %v, want %v", got, tc.counts)
			}
			for _, want := range tc.says {
				if !strings.Contains(c.Message, want) {
					t.Errorf("%q is not in %q", want, c.Message)
				}
			}
			if tc.reason != infrav1.AgentReleaseRollingOutReason && len(plan.Ask) > 0 {
				t.Errorf("asks %q", names(plan.Ask))
			}
		})
	}
}

func TestMessageOfAnAgentIsCut(t *testing.T) {
	h := at("a", "1", failed)
	h.Agent.Report.Message = strings.Repeat("ä", 1000)
	if m := agentrollout.Make(rollout(h)).Condition.Message; len(m) > 900 || !strings.Contains(m, "ä...)") {
		t.Errorf("%d bytes: %s", len(m), m)
	}
}

func TestHostOf(t *testing.T) {
	full := func() *infrav1.Host {
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h"}}
		h.Spec.FailureDomain = "rack"
		h.Spec.Agent = &infrav1.HostAgentSpec{Version: current, ReleaseDigest: digest}
		h.Spec.Claim = &infrav1.HostClaim{ClusterName: "c"}
		h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredBootstrapped, OperationID: "o"}
		h.Status.ObservedOperation = &infrav1.ObservedOperation{ID: "o", State: infrav1.OperationSucceeded}
		h.Status.Inventory.Architecture, h.Status.Inventory.AgentVersion = "amd64", older
		h.Status.Software.AgentManagement = infrav1.HostSoftwareManaged
		h.Status.AgentUpdate = &infrav1.HostAgentUpdate{Version: current, ReleaseDigest: digest, State: infrav1.HostAgentUpdateFetching}
		h.Status.Conditions = []metav1.Condition{{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionTrue}}
		return h
	}
	want := agentrollout.Host{
		Key: types.NamespacedName{Namespace: "ns", Name: "h"}, Domain: "rack", Architecture: "amd64", Managed: true, Connected: true, Approved: true, Claimed: true,
		Agent: host.Agent{Version: older, Asked: wanted, Report: infrav1.HostAgentUpdate{Version: current, ReleaseDigest: digest, State: infrav1.HostAgentUpdateFetching}},
	}
	if got := agentrollout.HostOf(full()); got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	cluster := types.NamespacedName{Namespace: "ns", Name: "c"}
	for name, tc := range map[string]struct {
		change func(*infrav1.Host)
		want   func(*agentrollout.Host)
	}{
		"told of the address": {func(h *infrav1.Host) { h.Spec.Desired.VirtualIP = "10.0.0.9" }, func(h *agentrollout.Host) { h.ControlPlane = cluster }},
		"reports the address": {func(h *infrav1.Host) { h.Status.VirtualIP = &infrav1.VirtualIPStatus{} }, func(h *agentrollout.Host) { h.ControlPlane = cluster }},
		"had the address":     {func(h *infrav1.Host) { h.Spec.Claim, h.Status.VirtualIP = nil, &infrav1.VirtualIPStatus{} }, func(h *agentrollout.Host) { h.Claimed = false }},
		"at work":             {func(h *infrav1.Host) { h.Status.ObservedOperation.State = infrav1.OperationRunning }, func(h *agentrollout.Host) { h.Busy = true }},
		"paused": {func(h *infrav1.Host) {
			h.Status.Conditions = append(h.Status.Conditions, metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue})
		}, func(h *agentrollout.Host) { h.Paused = true }},
		"not approved":                {func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalPending }, func(h *agentrollout.Host) { h.Approved = false }},
		"away":                        {func(h *infrav1.Host) { h.Status.Conditions = nil }, func(h *agentrollout.Host) { h.Connected = false }},
		"being deleted":               {func(h *infrav1.Host) { h.DeletionTimestamp = ptr.To(metav1.Now()) }, func(h *agentrollout.Host) { h.Deleting = true }},
		"updated by others":           {func(h *infrav1.Host) { h.Status.Software.AgentManagement = infrav1.HostSoftwareProvided }, func(h *agentrollout.Host) { h.Managed = false }},
		"never asked, never told":     {func(h *infrav1.Host) { h.Spec.Agent, h.Status.AgentUpdate = nil, nil }, func(h *agentrollout.Host) { h.Agent = host.Agent{Version: older} }},
		"what matters to others only": {func(h *infrav1.Host) { h.Status.BootID, h.Labels = "b", map[string]string{"a": "b"} }, func(*agentrollout.Host) {}},
	} {
		t.Run(name, func(t *testing.T) {
			h, want := full(), want
			tc.change(h)
			tc.want(&want)
			if got := agentrollout.HostOf(h); got != want {
				t.Errorf("%+v\nwant %+v", got, want)
			}
		})
	}
}
