package view

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/snapshot"
)

func TestSearchFindsByWhatPeopleKnow(t *testing.T) {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "prod", Name: name} }
	machine := clusterv1.Machine{ObjectMeta: meta("edge-w-1")}
	machine.Spec.ClusterName, machine.Status.NodeRef.Name = "edge", "node-7"
	run := lifecyclev1.LifecycleRun{ObjectMeta: meta("run-1")}
	run.Spec.ClusterName, run.Spec.PolicyName = "edge", "change-board"
	claimed, free := infrav1.Host{ObjectMeta: meta("h-10")}, infrav1.Host{ObjectMeta: meta("h-9")}
	claimed.Spec.Claim = &infrav1.HostClaim{ClusterName: "edge", MachineName: "edge-w-1"}
	claimed.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "192.0.2.7"}}
	free.Spec.FailureDomain = "rack-3"
	in := &snapshot.Snapshot{
		Hosts:    []infrav1.Host{claimed, free},
		Clusters: []clusterv1.Cluster{{ObjectMeta: meta("edge")}}, Machines: []clusterv1.Machine{machine},
		HostMachinePools: []infrav1.HostMachinePool{{ObjectMeta: meta("workers")}}, LifecycleRuns: []lifecyclev1.LifecycleRun{run},
	}
	for text, want := range map[string]string{
		"192.0.2.7": "Hosts: hosts/h-10", "RACK-3": "Hosts: hosts/h-9", "h-": "Hosts: hosts/h-9 hosts/h-10", "node-7": "Machines: clusters/edge",
		"workers": "Pools: pools/workers", "board": "Lifecycle runs: runs/run-1",
		"edge": "Clusters: clusters/edge Hosts: hosts/h-10 Machines: clusters/edge Lifecycle runs: runs/run-1", "": "", "nothing": "",
	} {
		var got []string
		for _, found := range SearchOf(text, in, judged(in)).Kinds {
			got = append(got, found.Kind+":")
			for _, item := range found.Items {
				got = append(got, item.Path+"/"+item.Name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q finds %q, want %q", text, got, want)
		}
	}
}

func TestSearchOfALargeFleetIsSmall(t *testing.T) {
	in := &snapshot.Snapshot{}
	for i := range 5000 {
		in.Hosts = append(in.Hosts, infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprintf("host-%d", i)}})
	}
	found := SearchOf("host", in, judged(in)).Kinds
	if len(found) != 1 || len(found[0].Items) != maxFound || found[0].More != 5000-maxFound {
		t.Errorf("%+v", found)
	}
}
