package placement_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/placement"
)

const version = "v1.36.3"

func aHost(name string, change ...func(*infrav1.Host)) *infrav1.Host {
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"disk": "ssd", "zone": "z-" + name}}}
	h.Spec.FailureDomain = "rack-1"
	h.Status.BootID = "boot"
	h.Status.Conditions = []metav1.Condition{{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionTrue}}
	h.Status.CleanProof = &infrav1.CleanProof{}
	h.Status.Inventory.Architecture, h.Status.Inventory.KubernetesVersions = "amd64", []string{version}
	h.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	for _, c := range change {
		c(h)
	}
	return h
}

func selector(labels map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels}
}

func TestJudge(t *testing.T) {
	none := func(*infrav1.Host) {}
	for name, tc := range map[string]struct {
		request placement.Request
		host    func(*infrav1.Host)
		want    string
	}{
		"anything":          {placement.Request{}, none, ""},
		"version":           {placement.Request{Version: version}, none, ""},
		"other version":     {placement.Request{Version: "v1.35.0"}, none, "Kubernetes v1.35.0 not installed"},
		"unknown versions":  {placement.Request{Version: version}, func(h *infrav1.Host) { h.Status.Inventory.KubernetesVersions = nil }, "Kubernetes versions not reported yet"},
		"pinned":            {placement.Request{HostName: "a"}, none, ""},
		"pinned to another": {placement.Request{HostName: "b"}, none, "spec.hostName asks for b"},
		"selected":          {placement.Request{Placement: infrav1.Placement{HostSelector: selector(map[string]string{"disk": "ssd"})}}, none, ""},
		"not selected":      {placement.Request{Placement: infrav1.Placement{HostSelector: selector(map[string]string{"disk": "hdd"})}}, none, "labels do not match spec.hostSelector"},
		"domain":            {placement.Request{FailureDomains: []string{"rack-2", "rack-1"}}, none, ""},
		"other domain":      {placement.Request{FailureDomains: []string{"rack-2", "rack-3"}}, none, "not in failure domain rack-2 or rack-3"},
		"domain by label":   {placement.Request{FailureDomains: []string{"z-a"}, FailureDomainLabel: "zone"}, none, ""},
		"claimed":           {placement.Request{}, func(h *infrav1.Host) { h.Spec.Claim = &infrav1.HostClaim{} }, "claimed"},
		"resetting": {placement.Request{}, func(h *infrav1.Host) {
			h.Spec.Claim = &infrav1.HostClaim{}
			h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredReset}
		}, "resetting"},
		"quarantined":                 {placement.Request{}, func(h *infrav1.Host) { h.Spec.ClaimGeneration = 1 }, "quarantined"},
		"not reported":                {placement.Request{}, func(h *infrav1.Host) { h.Status = infrav1.HostStatus{} }, "enrolling"},
		"unschedulable":               {placement.Request{}, func(h *infrav1.Host) { h.Spec.Unschedulable = ptr.To(true) }, "unschedulable"},
		"assigned":                    {placement.Request{}, func(h *infrav1.Host) { h.Spec.AssignedNamespace = "team-a" }, "assigned to another namespace"},
		"evacuated":                   {placement.Request{}, func(h *infrav1.Host) { h.Spec.Evacuate = ptr.To(true) }, "evacuated"},
		"not approved":                {placement.Request{}, func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalPending }, "not approved"},
		"denied":                      {placement.Request{}, func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalDenied }, "approval denied"},
		"agent too old":               {placement.Request{}, refusal(infrav1.AgentSupportedCondition, metav1.ConditionFalse, "AgentTooOld"), "agent too old"},
		"agent too new":               {placement.Request{}, refusal(infrav1.AgentSupportedCondition, metav1.ConditionFalse, "AgentTooNew"), "agent too new"},
		"duplicate":                   {placement.Request{}, refusal(infrav1.DuplicateIdentityCondition, metav1.ConditionTrue, "DuplicateIdentity"), "same key or machine-id as another host"},
		"status phase is not trusted": {placement.Request{}, func(h *infrav1.Host) { h.Status.Phase = infrav1.HostPhaseAvailable; h.Spec.ClaimGeneration = 1 }, "quarantined"},
	} {
		t.Run(name, func(t *testing.T) {
			requirements, err := placement.Parse(tc.request)
			if err != nil {
				t.Fatal(err)
			}
			if got := placement.Of().Judge(requirements, aHost("a", tc.host)).Reason; got != tc.want {
				t.Errorf("reason = %q, want %q", got, tc.want)
			}
		})
	}
	t.Run("disconnected", func(t *testing.T) {
		requirements, _ := placement.Parse(placement.Request{})
		h := aHost("a", func(h *infrav1.Host) { h.Status.Conditions = nil })
		if got := placement.Of().Judge(requirements, h).Reason; got != "agent not connected" {
			t.Errorf("reason = %q", got)
		}
	})
}

func refusal(conditionType string, status metav1.ConditionStatus, reason string) func(*infrav1.Host) {
	return func(h *infrav1.Host) {
		h.Status.Conditions = append(h.Status.Conditions, metav1.Condition{Type: conditionType, Status: status, Reason: reason})
	}
}

// Clones are refused as soon as both have reported, with or without a condition.
func TestClonesAreRefused(t *testing.T) {
	id := func(machineID string) func(*infrav1.Host) {
		return func(h *infrav1.Host) { h.Status.Inventory.MachineID = machineID }
	}
	requirements, err := placement.Parse(placement.Request{})
	if err != nil {
		t.Fatal(err)
	}
	clone := aHost("b", id("1"))
	snapshot := placement.Of(aHost("a", id("1")), clone, aHost("c", id("2")), aHost("d"))
	result := snapshot.Rank(requirements)
	if len(result.Ranked) != 2 || result.Ranked[0].Host.Name != "c" || len(result.Rejected) != 2 {
		t.Errorf("ranked %+v, rejected %+v", result.Ranked, result.Rejected)
	}
	if snapshot.Judge(requirements, clone).Fits() {
		t.Error("the second look at the clone passes")
	}
}

func TestRank(t *testing.T) {
	requirements, err := placement.Parse(placement.Request{Placement: infrav1.Placement{Preferred: []infrav1.PreferredHosts{
		{Weight: 10, HostSelector: selector(map[string]string{"zone": "z-c"})},
		{Weight: 5, HostSelector: selector(map[string]string{"disk": "ssd"})},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	slow := func(h *infrav1.Host) { h.Labels["disk"] = "hdd" }
	hosts := []*infrav1.Host{aHost("a", slow), aHost("d"), aHost("c", slow), aHost("b")}
	for range 20 {
		rand.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
		var names []string
		for _, fit := range placement.Of(hosts...).Rank(requirements).Ranked {
			names = append(names, fit.Host.Name)
		}
		if got := strings.Join(names, ""); got != "cdba" {
			t.Fatalf("order = %s, want cdba", got)
		}
	}
}

// From 1.35 on a kubelet refuses cgroup v1 unless its configuration says otherwise: whatever is preferred, such hosts
// come last, and are no worse than others to an older version or to none.
func TestCgroupV1ComesLast(t *testing.T) {
	booted := func(v infrav1.CgroupVersion) func(*infrav1.Host) {
		return func(h *infrav1.Host) {
			h.Status.Inventory.Cgroups = v
			h.Status.Inventory.KubernetesVersions = []string{"v1.34.9", "v1.35.0", "v1.37.2"}
		}
	}
	preferred := infrav1.Placement{Preferred: []infrav1.PreferredHosts{{Weight: 10, HostSelector: selector(map[string]string{"zone": "z-a"})}}}
	for version, want := range map[string]string{"v1.37.2": "b", "v1.35.0": "b", "v1.34.9": "a", "": "a"} {
		requirements, err := placement.Parse(placement.Request{Version: version, Placement: preferred})
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range []infrav1.CgroupVersion{infrav1.CgroupV2, ""} {
			ranked := placement.Of(aHost("a", booted(infrav1.CgroupV1)), aHost("b", booted(other))).Rank(requirements).Ranked
			if len(ranked) != 2 || ranked[0].Host.Name != want {
				t.Errorf("for %q, beside cgroups %q: the order is %+v, want %s first", version, other, ranked, want)
			}
		}
	}
}

// A machine that chose a name which comes first is not the first choice of every machine: the UID of
// its Host decides. The order is the same whenever it is asked for.
func TestTiesAreBrokenByNoName(t *testing.T) {
	requirements, err := placement.Parse(placement.Request{})
	if err != nil {
		t.Fatal(err)
	}
	first := map[string]int{}
	for i := range 64 {
		uid := func(name string) func(*infrav1.Host) {
			return func(h *infrav1.Host) { h.UID = types.UID(fmt.Sprint(name, i)) }
		}
		a, b := aHost("a", uid("a")), aHost("b", uid("b"))
		chosen, again := placement.Of(a, b).Rank(requirements).Ranked[0].Host.Name, placement.Of(b, a).Rank(requirements).Ranked[0].Host.Name
		if chosen != again {
			t.Fatalf("%s comes first, and %s in another order of the same hosts", chosen, again)
		}
		first[chosen]++
	}
	if first["a"] < 16 || first["b"] < 16 {
		t.Errorf("of 64 pairs of hosts that fit equally, the first is %v", first)
	}
}

// The domain a pool chose comes before preferences; when it is hard, other hosts
// don't fit at all.
func TestSpread(t *testing.T) {
	rack := func(name string) func(*infrav1.Host) {
		return func(h *infrav1.Host) { h.Spec.FailureDomain, h.Labels["rack"] = "", name }
	}
	hosts := []*infrav1.Host{aHost("a", rack("1")), aHost("b", rack("2")), aHost("c", rack("2"))}
	for name, tc := range map[string]struct {
		hard           *bool
		value          string
		want, rejected string
	}{
		"soft":              {nil, "2", "cba", ""},
		"hard":              {ptr.To(true), "2", "cb", "not in failure domain 2, which spec.spread asks for"},
		"soft, none there":  {ptr.To(false), "3", "cba", ""},
		"hard, none there":  {ptr.To(true), "3", "", "not in failure domain 3, which spec.spread asks for"},
		"domain by default": {nil, "", "cba", ""},
	} {
		t.Run(name, func(t *testing.T) {
			request := placement.Request{
				Version: version,
				Spread:  &infrav1.SpreadDomain{Key: "rack", Value: tc.value, Hard: tc.hard},
				Placement: infrav1.Placement{Preferred: []infrav1.PreferredHosts{
					{Weight: 10, HostSelector: selector(map[string]string{"zone": "z-c"})},
				}},
			}
			requirements, err := placement.Parse(request)
			if err != nil {
				t.Fatal(err)
			}
			result := placement.Of(hosts...).Rank(requirements)
			got := ""
			for _, fit := range result.Ranked {
				got += fit.Host.Name
			}
			if got != tc.want {
				t.Errorf("order = %s, want %s", got, tc.want)
			}
			if tc.rejected != "" && (len(result.Rejected) == 0 || result.Rejected[0].Reason != tc.rejected) {
				t.Errorf("rejected = %+v, want %s", result.Rejected, tc.rejected)
			}
		})
	}
}

// However many hosts and reasons there are, the condition stays readable.
func TestExplainIsBounded(t *testing.T) {
	var result placement.Result
	for i := range 5000 {
		result.Rejected = append(result.Rejected, placement.Verdict{Host: aHost(strings.Repeat("h", 60)), Reason: fmt.Sprintf("reason %d", i%40)})
	}
	got := result.Explain()
	if len(got) > 2048 || !strings.HasSuffix(got, "; 4250 for other reasons") {
		t.Errorf("%d characters: %s", len(got), got)
	}
}

func TestExplain(t *testing.T) {
	requirements, err := placement.Parse(placement.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if got := placement.Of().Rank(requirements).Explain(); !strings.Contains(got, "slipway host add") {
		t.Errorf("no hosts: %s", got)
	}
	var hosts []*infrav1.Host
	for i := range 5 {
		hosts = append(hosts, aHost(fmt.Sprintf("h%d", i), func(h *infrav1.Host) { h.Spec.Claim = &infrav1.HostClaim{} }))
	}
	hosts = append(hosts, aHost("x", func(h *infrav1.Host) { h.Namespace, h.Spec.Unschedulable = "prod", ptr.To(true) }))
	for _, name := range []string{"y", "z"} {
		hosts = append(hosts, aHost(name, func(h *infrav1.Host) { h.Namespace, h.Spec.Approval = "prod", infrav1.HostApprovalPending }))
	}
	want := "No host available: 5 claimed (h0, h1, h2 and 2 more); 2 not approved (y, z; approve with: slipway host approve y -n prod); 1 unschedulable (x; release with: slipway host uncordon x -n prod)"
	if got := placement.Of(hosts...).Rank(requirements).Explain(); got != want {
		t.Errorf("Explain = %s\nwant      %s", got, want)
	}
}

// A host whose agent installs versions fits one that it lacks, after those that have it; what
// the machine prefers weighs more.
func TestVersionsOnDemand(t *testing.T) {
	managed := func(h *infrav1.Host) {
		h.Status.Software.Management = infrav1.HostSoftwareManaged
		h.Status.Inventory.KubernetesVersions = nil
	}
	arm := func(h *infrav1.Host) { h.Status.Inventory.Architecture = "arm64" }
	request := placement.Request{Version: version, Release: &infrav1.KubernetesReleaseSpec{Version: version, Architectures: []string{"amd64"}}}
	hosts := []*infrav1.Host{
		aHost("a", managed), aHost("b"), aHost("c", managed, arm),
		aHost("d", func(h *infrav1.Host) { h.Status.Inventory.KubernetesVersions = []string{"v1.0.0"} }),
	}
	choose := func(r placement.Request) string {
		t.Helper()
		requirements, err := placement.Parse(r)
		if err != nil {
			t.Fatal(err)
		}
		result := placement.Of(hosts...).Rank(requirements)
		var found []string
		for _, fit := range result.Ranked {
			found = append(found, fmt.Sprintf("%s %t", fit.Host.Name, fit.Install))
		}
		for _, rejected := range result.Rejected {
			found = append(found, rejected.Host.Name+": "+rejected.Reason)
		}
		return strings.Join(found, "; ")
	}
	const rest = "; c: Kubernetes v1.36.3 not offered: neither installed nor in a KubernetesRelease for arm64; d: Kubernetes v1.36.3 not installed"
	if got := choose(request); got != "b false; a true"+rest {
		t.Error(got)
	}
	request.Placement.Preferred = []infrav1.PreferredHosts{{Weight: 1, HostSelector: selector(map[string]string{"zone": "z-a"})}}
	if got := choose(request); got != "a true; b false"+rest {
		t.Error(got)
	}
	request.Release = nil
	if got := choose(request); got != "b false; a: Kubernetes v1.36.3 not offered: neither installed nor in a KubernetesRelease for amd64"+rest {
		t.Error(got)
	}
}

func TestMalformedSelector(t *testing.T) {
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	for _, p := range []infrav1.Placement{
		{HostSelector: bad}, {Preferred: []infrav1.PreferredHosts{{Weight: 1, HostSelector: bad}}},
	} {
		if _, err := placement.Parse(placement.Request{Placement: p}); err == nil || !strings.Contains(err.Error(), "ostSelector") {
			t.Errorf("err = %v", err)
		}
	}
}
