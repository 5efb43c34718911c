package console

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/console/view"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/status"
)

// fleetOf is n hosts with machines in racks of forty, of which one of ten is not connected.
func fleetOf(n int) *doctor.Snapshot {
	now := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	o := &doctor.Snapshot{Now: now}
	long := metav1.NewTime(now.Add(-time.Hour))
	for i := range n {
		cluster := fmt.Sprintf("cluster-%d", i%10)
		meta := metav1.ObjectMeta{Namespace: "production-of-the-west", CreationTimestamp: long, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}}
		h := infrav1.Host{ObjectMeta: meta}
		h.Name, h.Spec.FailureDomain, h.Status.Phase = fmt.Sprintf("rack%03d-unit%02d", i/40, i%40), fmt.Sprintf("rack-%d", i/40), infrav1.HostPhaseRunning
		name := fmt.Sprintf("%s-workers-x7k2p-%d", cluster, i)
		h.Spec.Claim = &infrav1.HostClaim{ClusterName: cluster, MachineName: name, ClaimID: "c"}
		h.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: fmt.Sprintf("10.20.%d.%d", i/250, i%250)}}
		h.Status.Inventory.AgentVersion = "v0.1.0"
		connected := metav1.ConditionTrue
		if i%10 == 0 {
			connected = metav1.ConditionFalse
		}
		h.Status.Conditions = []metav1.Condition{{Type: infrav1.AgentConnectedCondition, Status: connected, Reason: infrav1.HostHeartbeatStaleReason, Message: "The agent has been silent for a while. Check the host", LastTransitionTime: long}}
		m := infrav1.HostMachine{ObjectMeta: meta}
		m.Name, m.Status.HostRef.Name = name, h.Name
		machine := clusterv1.Machine{ObjectMeta: meta}
		machine.Name, machine.Spec.ClusterName, machine.Spec.Version, machine.Status.NodeRef.Name = name, cluster, "v1.36.3", h.Name
		machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachine", Name: name}
		o.Hosts, o.HostMachines, o.Machines = append(o.Hosts, h), append(o.HostMachines, m), append(o.Machines, machine)
		if i < 10 {
			c := clusterv1.Cluster{ObjectMeta: meta}
			c.Name = cluster
			o.Clusters = append(o.Clusters, c)
		}
	}
	return o
}

// rendering renders the overview and the list of hosts of a snapshot.
func rendering(t testing.TB, s *server, o *doctor.Snapshot) (overview, hosts []byte) {
	t.Helper()
	states := status.Judge(o)
	var pages [2][]byte
	for i, page := range []struct {
		template string
		content  any
	}{{"overview", view.OverviewOf(o, states, status.Of(o, states), nil)}, {"hosts", view.HostsOf(view.HostLinesOf(o, states), view.HostFilter{})}} {
		var out bytes.Buffer
		if err := s.templates.ExecuteTemplate(&out, page.template, body{Content: page.content}); err != nil {
			t.Fatal(err)
		}
		pages[i] = out.Bytes()
	}
	return pages[0], pages[1]
}

func drawing(t testing.TB) *server {
	t.Helper()
	s, err := newServer(Config{}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What a browser loads and lays out is small for a rack of racks, and does not grow with the fleet:
// the same trouble of many hosts is one, and of thousands there are only the racks.
func TestPagesOfALargeFleetAreSmall(t *testing.T) {
	s := drawing(t)
	for _, n := range []int{500, 5000} {
		overview, hosts := rendering(t, s, fleetOf(n))
		if len(overview) > 300<<10 || len(hosts) > 300<<10 {
			t.Errorf("%d hosts make pages of %d and %d KiB", n, len(overview)>>10, len(hosts)>>10)
		}
		if n := bytes.Count(overview, []byte("<article")); n != 1 {
			t.Errorf("the trouble of a tenth of the hosts is told %d times", n)
		}
	}
}

func BenchmarkPagesOf500Hosts(b *testing.B) {
	s, o := drawing(b), fleetOf(500)
	for b.Loop() {
		overview, hosts := rendering(b, s, o)
		b.ReportMetric(float64(len(overview)), "bytes/overview")
		b.ReportMetric(float64(len(hosts)), "bytes/hosts")
	}
}
