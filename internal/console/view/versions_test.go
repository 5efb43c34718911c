package view

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/status"
)

// The page says what each group of machines runs, which newer version the hosts have that the cluster may
// go to, and by which commands.
func TestVersions(t *testing.T) {
	o := &doctor.Snapshot{Now: time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)}
	host := func(namespace, agent string, kubernetes ...string) {
		h := infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "h" + string(rune('0'+len(o.Hosts)))}}
		h.Status.Inventory.AgentVersion, h.Status.Inventory.KubernetesVersions = agent, kubernetes
		o.Hosts = append(o.Hosts, h)
	}
	host("prod", "v0.2.0", "v1.10.1", "v1.9.3")
	host("prod", "v0.2.0", "v1.10.1", "v1.12.0")
	host("prod", "v0.1.9")
	host("other", "v0.2.0", "v1.10.9")
	machine := func(name, kubelet, runtime string, labels map[string]string) {
		m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, Labels: labels}}
		m.Spec.ClusterName, m.Spec.Version = "c", "v1.9.3"
		if kubelet != "" {
			m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: kubelet, ContainerRuntimeVersion: runtime}
		}
		o.Machines = append(o.Machines, m)
	}
	pool := map[string]string{clusterv1.MachinePoolNameLabel: "c-p-x", clusterv1.ClusterTopologyMachinePoolNameLabel: "p"}
	machine("cp", "v1.9.3", "containerd://2.1.0", map[string]string{clusterv1.MachineControlPlaneLabel: ""})
	machine("w1", "v1.9.1", "containerd://1.7.27", pool)
	machine("w2", "", "", pool)
	c := clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "c"}}
	c.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.9.3"}
	without := clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "plain"}}
	o.Clusters = []clusterv1.Cluster{c, without}
	d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "capi-system", Name: "capi-controller-manager"}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Image: "registry:5000/cluster-api-controller:v1.0.1@sha256:abc"}}
	o.Providers = []appsv1.Deployment{d}

	v := VersionsOf(o, status.Judge(o), []Component{{Name: "API server", Version: "v1.9.0"}})
	if !slices.Equal(v.Management, []Component{{"API server", "", "v1.9.0"}, {"capi-controller-manager", "capi-system", "v1.0.1"}}) {
		t.Errorf("management: %+v", v.Management)
	}
	var groups []string
	for _, g := range v.Groups {
		line := g.Cluster + " " + g.Name + " wants " + g.Wanted + " runs"
		for _, r := range g.Runs {
			line += " " + r.Version + " " + r.Bar.Text
		}
		if g.Newer != "" {
			line += " may have " + g.Newer + " of " + string(rune('0'+g.Hosts)) + ": " + strings.Join(g.Next, "; ")
		}
		groups = append(groups, line)
	}
	want := []string{
		"c Control plane wants v1.9.3 runs v1.9.3 1 of 1 may have v1.10.1 of 2: slipway check upgrade c --to v1.10.1 -n prod; slipway cluster upgrade c --kubernetes-version v1.10.1 -n prod",
		"c p wants v1.9.3 runs v1.9.3 1 of 2 v1.9.1 1 of 2", "plain Control plane wants  runs",
	}
	if !slices.Equal(groups, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(groups, "\n"), strings.Join(want, "\n"))
	}
	var tables []string
	for _, table := range v.OnHosts {
		line := table.Title + ":"
		for _, r := range table.Rows {
			line += " " + r.Version + " " + r.Bar.Text
		}
		tables = append(tables, line)
	}
	want = []string{
		"Kubernetes that hosts have: v1.12.0 1 of 4 v1.10.9 1 of 4 v1.10.1 2 of 4 v1.9.3 1 of 4", "slipway-agent: v0.2.0 3 of 4 v0.1.9 1 of 4",
		"Container runtimes of nodes: containerd 2.1.0 1 of 3 containerd 1.7.27 1 of 3", "Operating systems:",
	}
	if !slices.Equal(tables, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(tables, "\n"), strings.Join(want, "\n"))
	}
	if len(v.Ends) != 1 || v.Ends[0].Nodes != 1 {
		t.Errorf("what ends: %+v", v.Ends)
	}
}
