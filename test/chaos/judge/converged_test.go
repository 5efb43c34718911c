package judge

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// whole is a cluster of a control plane and a pool of one, and a free host.
func whole() map[string]client.Object {
	plane, member := hostMachine("cp", "host-1"), hostMachine("m", "host-2")
	member.OwnerReferences = []metav1.OwnerReference{{Kind: "HostMachinePool", Name: "pool", UID: "pool"}}
	core := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: "local-pool"}}
	core.Spec.ClusterName, core.Spec.Replicas, core.Status.ReadyReplicas = "local", new(int32), new(int32)
	*core.Spec.Replicas, *core.Status.ReadyReplicas = 1, 1
	return map[string]client.Object{
		"cluster": cluster(false), "plane": plane, "member": member, "core": core, "pool": pool(member),
		"host-1": claimedBy("host-1", 1, "cp"), "host-2": claimedBy("host-2", 1, "m"), "host-3": freeHost("host-3", 0),
		"node-1": node(plane, corev1.ConditionTrue), "node-2": node(member, corev1.ConditionTrue),
	}
}

func missing(t *testing.T, objects map[string]client.Object) []string {
	t.Helper()
	p := &planted{}
	for _, o := range objects {
		p.write(o)
	}
	j := New(limits)
	for _, e := range p.entries {
		if _, err := j.Observe(e); err != nil {
			t.Fatal(err)
		}
	}
	return j.Missing(Want{Hosts: 3, Clusters: map[string]Workers{"local": {Pool: 1}}})
}

func TestMissing(t *testing.T) {
	t.Parallel()
	if got := missing(t, whole()); len(got) > 0 {
		t.Fatalf("missing to a cluster that is whole: %v", got)
	}
	halfMade := func(kind string) *infrav1.HostMachine {
		m := hostMachine("second", "")
		m.Spec, m.Status = infrav1.HostMachineSpec{}, infrav1.HostMachineStatus{}
		m.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "local"}}
		return m
	}
	objects := whole()
	objects["half"] = halfMade("KubeadmControlPlane")
	if got := missing(t, objects); len(got) > 0 {
		t.Fatalf("missing to a cluster with a HostMachine that core left behind: %v", got)
	}
	for _, c := range []struct {
		name  string
		spoil func(map[string]client.Object)
		want  string
	}{
		{"a HostMachine too many", func(o map[string]client.Object) { o["half"] = halfMade("HostMachinePool") }, "has 3 HostMachines"},
		{"no cluster", func(o map[string]client.Object) { delete(o, "cluster") }, "no Cluster local"},
		{"a cluster too many", func(o map[string]client.Object) {
			other := cluster(false)
			other.Name = "second-1"
			o["other"] = other
		}, "Cluster second-1 is still there"},
		{"an old topology", func(o map[string]client.Object) { o["cluster"].SetGeneration(2) }, "topology of Cluster local"},
		{"a Node short", func(o map[string]client.Object) { delete(o, "node-2") }, "has 1 Nodes"},
		{"a Node that is not ready", func(o map[string]client.Object) {
			o["node-2"] = node(hostMachine("m", "host-2"), corev1.ConditionFalse)
		}, "1 of them ready"},
		{"a machine that is not ready", func(o map[string]client.Object) {
			o["plane"].(*infrav1.HostMachine).Status.Conditions[0].Status = metav1.ConditionFalse
		}, "HostMachine cp is not Ready"},
		{"a machine that is being deleted", func(o map[string]client.Object) { deleted(o["plane"], began.Add(time.Second)) }, "HostMachine cp is being deleted"},
		{"a member that is not listed", func(o map[string]client.Object) { o["pool"] = pool() }, "HostMachinePool pool lists []"},
		{"a member of nobody", func(o map[string]client.Object) { o["member"].SetOwnerReferences(nil) }, "HostMachinePool pool lists"},
		{"a pool of another size", func(o map[string]client.Object) { *o["core"].(*clusterv1.MachinePool).Spec.Replicas = 2 }, "MachinePool local-pool has 2 replicas"},
		{"a host short", func(o map[string]client.Object) { delete(o, "host-3") }, "there are 2 Hosts"},
		{"a host that is not connected", func(o map[string]client.Object) {
			o["host-1"].(*infrav1.Host).Status.Conditions[0].Status = metav1.ConditionFalse
		}, "host-1 is not connected"},
		{"a free host that nobody can claim", func(o map[string]client.Object) {
			o["host-3"].(*infrav1.Host).Status.Phase = infrav1.HostPhaseQuarantined
		}, "host-3 is Quarantined"},
		{"a host that is not given back", func(o map[string]client.Object) { o["host-3"] = claimedBy("host-3", 1, "gone") }, "claimed by HostMachine gone that is not there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			objects := whole()
			c.spoil(objects)
			if got := strings.Join(missing(t, objects), "; "); !strings.Contains(got, c.want) {
				t.Errorf("missing is %q, want it to say %q", got, c.want)
			}
		})
	}
}

// What is told of a violation names the host, and not the others.
func TestAround(t *testing.T) {
	t.Parallel()
	p := new(planted).write(freeHost("host-1", 0), freeHost("host-10", 0), claimedBy("host-1", 1, "a"), claimedBy("host-1", 1, "a"), hostMachine("a", "host-1")).
		add("", Entry{Verb: Injected, Text: "cut host-10"}).lose("local").wait(time.Hour).write(freeHost("host-1", 1))
	lines, err := Around(p.entries, p.entries[2], time.Minute, []string{"host-1"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range lines {
		got = append(got, strings.Join(strings.Fields(line)[2:5], " "))
	}
	want := []string{"Written Host host-1", "Written Host host-1", "Written HostMachine a", "fault injected: cut", `cluster "local" lost`}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("told is %q, want %q", got, want)
	}
}
