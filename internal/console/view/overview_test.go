package view

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/snapshot"
	"github.com/slipway-dev/slipway/internal/status"
)

// troubled is hosts that are away for an hour, one that waits for its approval, one that is kept
// back, and one that is well.
func troubled(away int) *doctor.Snapshot {
	now := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	o := &doctor.Snapshot{Now: now}
	host := func(name string, connected metav1.ConditionStatus) *infrav1.Host {
		h := infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
		h.Status.Phase = infrav1.HostPhaseAvailable
		h.Spec.HostID, h.Status.BootID, h.Status.Inventory.Architecture = "id-"+name, "boot", "amd64"
		h.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		h.Status.CleanProof = &infrav1.CleanProof{Time: metav1.NewTime(now)}
		h.Status.Conditions = []metav1.Condition{{Type: infrav1.AgentConnectedCondition, Status: connected, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)), Message: "silent"}}
		o.Hosts = append(o.Hosts, h)
		return &o.Hosts[len(o.Hosts)-1]
	}
	host("new", metav1.ConditionTrue).Spec.Approval = infrav1.HostApprovalPending
	host("kept", metav1.ConditionTrue).Spec.Unschedulable = ptr.To(true)
	for i := range away {
		host(fmt.Sprintf("away-%d", i), metav1.ConditionFalse)
	}
	host("well", metav1.ConditionTrue)
	return o
}

func TestOverviewHasWhatNeedsSomebody(t *testing.T) {
	for away, want := range map[int][]string{
		0: {"wait HostNotApproved new 0"}, 2: {"bad HostDisconnected away-0 0", "bad HostDisconnected away-1 0", "wait HostNotApproved new 0"}, folded: {"bad HostDisconnected away-0 3", "wait HostNotApproved new 0"},
	} {
		o := troubled(away)
		states := status.Judge(o)
		v := OverviewOf(o, states, status.Of(o, states), nil)
		var got []string
		for _, trouble := range v.Troubles {
			got = append(got, fmt.Sprint(trouble.Role, " ", trouble.Word, " ", trouble.Object.Name, " ", len(trouble.Others)))
			if trouble.Page != "/hosts/n/"+trouble.Object.Name || trouble.Means == "" || trouble.Remedy == "" || trouble.Next == "" || trouble.Cause == "" {
				t.Errorf("%+v", trouble)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d hosts away: %q, want %q", away, got, want)
		}
		if s := v.Summary; s.Attention != away+1 || s.Decisions != 1 || s.Hosts != away+3 || s.Connected != 3 || s.Free != 1 {
			t.Errorf("%d hosts away: %+v", away, s)
		}
		if len(v.Notes) != 1 || v.Notes[0].Word != "HostKeptBack" {
			t.Errorf("notes: %+v", v.Notes)
		}
		// A host that waits for its approval can be approved from here.
		if buttons := v.Troubles[len(v.Troubles)-1].Buttons; !slices.Contains(buttons, Link{"Approve…", "/hosts/n/new/approve"}) {
			t.Errorf("buttons: %v", buttons)
		}
	}
}

// What may not be read was not checked, which is not the same as being well.
func TestOverviewNamesWhatWasNotChecked(t *testing.T) {
	o := troubled(0)
	o.Unread = []snapshot.Unread{{Kind: "Deployment"}, {Kind: "Machine"}}
	v := OverviewOf(o, status.Judge(o), status.Status{}, nil)
	if !slices.Equal(v.Unchecked, []string{"Deployment"}) {
		t.Errorf("not checked: %v", v.Unchecked)
	}
}

func TestOverviewHasTheClustersInTroubleFirst(t *testing.T) {
	o := troubled(0)
	var told []status.Cluster
	for i := range maxCards + 2 {
		told = append(told, status.Cluster{Namespace: "n", Name: fmt.Sprintf("c%d", i), State: status.State{Role: status.OK}, ControlPlane: status.Replicas{Desired: 3, Ready: 2}, Pools: []status.Pool{{Replicas: status.Replicas{Desired: 4, Ready: 1}}, {Replicas: status.Replicas{Desired: 1}}}})
	}
	told[maxCards+1].State.Role = status.Bad
	m := infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m", Labels: map[string]string{clusterv1.ClusterNameLabel: told[maxCards+1].Name}}}
	o.HostMachines = []infrav1.HostMachine{m}
	v := OverviewOf(o, status.Judge(o), status.Status{Clusters: told}, nil)
	first := v.Clusters[0]
	if len(v.Clusters) != maxCards || v.MoreClusters != 2 || first.Name != told[maxCards+1].Name {
		t.Errorf("%d clusters and %d more, %s first", len(v.Clusters), v.MoreClusters, first.Name)
	}
	// Of five workers one is ready, and one waits for a host.
	if first.ControlPlane.Text != "2/3" || first.Workers.Text != "1/5" || !slices.Equal(first.Workers.Parts, []Part{{status.OK, 0, 1}, {status.Work, 1, 1}}) {
		t.Errorf("bars: %+v, %+v", first.ControlPlane, first.Workers)
	}
}

func TestBarsHaveNoMoreThanTheirTotal(t *testing.T) {
	bar := barOf(3, map[status.Role]int{status.OK: 2, status.Bad: 2, status.Free: 9}, "")
	if !slices.Equal(bar.Parts, []Part{{status.OK, 0, 2}, {status.Bad, 2, 1}}) {
		t.Errorf("%+v", bar)
	}
	if bar := barOf(0, map[status.Role]int{status.Bad: 1}, ""); bar.Total != 1 || bar.Parts != nil {
		t.Errorf("nothing: %+v", bar)
	}
}

// What is not as it should be is seen without unfolding; what is normal is not red.
func TestConditionsAreByWhatIsExpected(t *testing.T) {
	at := func(minutes int) metav1.Time { return metav1.NewTime(time.Unix(int64(minutes)*60, 0)) }
	all := []metav1.Condition{
		{Type: "Ready", Status: "False", Message: "* a: b\n* c: d\n  * e", LastTransitionTime: at(1)},
		{Type: infrav1.AvailableCondition, Status: "False", Reason: infrav1.HostClaimedReason},
		{Type: infrav1.ClockSkewedCondition, Status: "True", LastTransitionTime: at(2)},
		{Type: clusterv1.RollingOutCondition, Status: "True", LastTransitionTime: at(3)},
		{Type: clusterv1.PausedCondition, Status: "False"}, {Type: infrav1.AgentConnectedCondition, Status: "True"},
	}
	v := ConditionsOf(all, status.State{Role: status.Bad})
	names := func(all []Condition) (names []string) {
		for _, c := range all {
			names = append(names, string(c.Role)+" "+c.Type)
		}
		return names
	}
	if got := names(v.Unexpected); !slices.Equal(got, []string{"bad ClockSkewed", "bad Ready", "work RollingOut"}) {
		t.Errorf("unexpected: %v", got)
	}
	if got := names(v.Expected); !slices.Equal(got, []string{"ok AgentConnected", "off Available", "off Paused"}) {
		t.Errorf("expected: %v", got)
	}
	if got := v.Unexpected[1].Lines; !slices.Equal(got, []string{"a: b", "c: d", "e"}) {
		t.Errorf("lines: %q", got)
	}
}

func TestEventsAreReadable(t *testing.T) {
	e := event("cluster.x-k8s.io/v1beta2", "MachinePool", "p", "SuccessfulSetNodeRefs", corev1.EventTypeNormal, 9)
	e.Message = "[{Kind:Node Namespace: Name:host-2 UID:57f1 APIVersion:v1 ResourceVersion: FieldPath:} {Kind:Node Namespace: Name:host-3 UID:58 APIVersion:v1 ResourceVersion: FieldPath:}]"
	if got := eventOf(&e).Message; got != "Node host-2 Node host-3" {
		t.Errorf("message %q", got)
	}
	e.Message = "waits for {a} [b]"
	if got := eventOf(&e); got.Message != e.Message || got.Page != "" {
		t.Errorf("%+v", got)
	}
	first := eventOf(&e)
	second := first
	second.Time, second.Count = first.Time.Add(-time.Minute), 3
	other := first
	other.Name = "q"
	if got := Folded([]Event{first, second, other, first}); len(got) != 3 || got[0].Count != 4 || !got[0].Time.Equal(first.Time) || got[1].Name != "q" {
		t.Errorf("%+v", got)
	}
}
