package clusters_test

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/clusters"
)

func options() clusters.Options {
	return clusters.Options{
		Namespace: "ns", Name: "prod", Version: "1.36.3", ControlPlanes: 3, Endpoint: "192.0.2.100",
		Pools: []clusters.Pool{{Name: "pool", Replicas: 2}, {Name: "gpu", Replicas: 0}},
	}
}

// made returns the Cluster, which is the last object.
func made(t *testing.T, o clusters.Options) (*clusterv1.Cluster, []client.Object) {
	t.Helper()
	objects, err := clusters.New(o)
	if err != nil {
		t.Fatal(err)
	}
	cluster, ok := objects[len(objects)-1].(*clusterv1.Cluster)
	if !ok {
		t.Fatalf("the last object is a %T: one that is interrupted leaves a Cluster that is not whole", objects[len(objects)-1])
	}
	return cluster, objects
}

func TestNew(t *testing.T) {
	o := options()
	o.Endpoint, o.Network.Flannel = "[2001:db8::1]:8443", true
	o.Variables = []string{"workerHostLabels={disk: ssd}", "endpointType=External", "note="}
	cluster, objects := made(t, o)
	text, err := yaml.Marshal(cluster)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"slipway.dev/cni: flannel", "version: v1.36.3", "name: slipway\n", "value: 2001:db8::1", "value: 8443", "disk: ssd", "value: External", "value: null",
		"fd00:10:244::/56", "fd00:10:96::/112", "name: gpu\n        replicas: 0", "replicas: 3",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the Cluster lacks %q:\n%s", want, text)
		}
	}
	var kinds []string
	for _, o := range objects {
		kinds = append(kinds, o.GetObjectKind().GroupVersionKind().Kind+" "+o.GetName())
		if o.GetNamespace() != "ns" {
			t.Errorf("%s is in namespace %q", o.GetName(), o.GetNamespace())
		}
	}
	if got := strings.Join(kinds, ", "); got != "ConfigMap slipway-flannel, ClusterResourceSet slipway-flannel, MachineHealthCheck prod-pools, Cluster prod" {
		t.Errorf("made %s", got)
	}
}

// TestOwnNetwork holds that a manifest is installed into this cluster alone.
func TestFamilies(t *testing.T) {
	for name, c := range map[string]struct {
		endpoint, pods, services string
		wantPods, wantServices   string
	}{
		"neither":           {"192.0.2.100", "", "", "10.244.0.0/16", "10.96.0.0/16"},
		"a name":            {"lb.example.com", "", "", "10.244.0.0/16", "10.96.0.0/16"},
		"IPv6":              {"[2001:db8::1]:8443", "", "", "fd00:10:244::/56", "fd00:10:96::/112"},
		"IPv6 in capitals":  {"2001:DB8::1", "", "", "fd00:10:244::/56", "fd00:10:96::/112"},
		"IPv4 in IPv6":      {"::ffff:192.0.2.1", "", "", "10.244.0.0/16", "10.96.0.0/16"},
		"both, by the pods": {"192.0.2.100", "10.244.0.0/16,fd00:10:244::/56", "", "10.244.0.0/16 fd00:10:244::/56", "10.96.0.0/16 fd00:10:96::/112"},
		"both, IPv6 first":  {"192.0.2.100", "", "FD00:1::/112,10.9.0.0/16", "fd00:10:244::/56 10.244.0.0/16", "fd00:1::/112 10.9.0.0/16"},
	} {
		o := options()
		o.Endpoint, o.PodCIDR, o.ServiceCIDR, o.Network.Flannel = c.endpoint, c.pods, c.services, true
		cluster, _ := made(t, o)
		n := cluster.Spec.ClusterNetwork
		if pods, services := strings.Join(n.Pods.CIDRBlocks, " "), strings.Join(n.Services.CIDRBlocks, " "); pods != c.wantPods || services != c.wantServices {
			t.Errorf("%s: pods %s, services %s", name, pods, services)
		}
		if text := string(cluster.Spec.Topology.Variables[0].Value.Raw); strings.Contains(text, "DB8") || strings.Contains(text, "ffff") {
			t.Errorf("%s: the endpoint stays %s", name, text)
		}
	}
	o := options()
	o.Endpoint, o.PodCIDR, o.Variables = "192.0.2.100", "fd00:1::/56", []string{"endpointType=External"}
	made(t, o)
}

func TestOwnNetwork(t *testing.T) {
	o := options()
	o.PodCIDR, o.Network.Manifest = "10.0.0.0/8", []byte("kind: X\n")
	cluster, objects := made(t, o)
	if cluster.Labels[clusters.NetworkLabel] != "prod" || objects[0].GetName() != "prod-cni" || objects[1].GetName() != "prod-cni" {
		t.Errorf("labels %v, objects %s and %s", cluster.Labels, objects[0].GetName(), objects[1].GetName())
	}
	o.Network = clusters.Network{}
	if cluster, objects = made(t, o); len(cluster.Labels) > 0 || len(objects) != 2 {
		t.Errorf("none: labels %v, %d objects", cluster.Labels, len(objects))
	}
}

func TestNewRefuses(t *testing.T) {
	for want, change := range map[string]func(*clusters.Options){
		`--kubernetes-version: "latest"`: func(o *clusters.Options) { o.Version = "latest" },
		`name: "Prod"`:                   func(o *clusters.Options) { o.Name = "Prod" },
		"--control-planes: 0":            func(o *clusters.Options) { o.ControlPlanes = 0 },
		"--control-planes: 2: use 1, 3":  func(o *clusters.Options) { o.ControlPlanes = 2 },
		"--pool: pool is given twice":    func(o *clusters.Options) { o.Pools = append(o.Pools, o.Pools[0]) },
		`--pool: "a_b"`:                  func(o *clusters.Options) { o.Pools = []clusters.Pool{{Name: "a_b"}} },
		`--endpoint: ""`:                 func(o *clusters.Options) { o.Endpoint = "" },
		`--endpoint: "a:b:c"`:            func(o *clusters.Options) { o.Endpoint = "a:b:c" },
		`--endpoint: "lb:0"`:             func(o *clusters.Options) { o.Endpoint = "lb:0" },
		`--endpoint: "https://lb"`:       func(o *clusters.Options) { o.Endpoint = "https://lb" },
		`--pod-cidr: "10.0.0.0"`:         func(o *clusters.Options) { o.PodCIDR = "10.0.0.0" },
		"two networks of one family":     func(o *clusters.Options) { o.PodCIDR = "10.0.0.0/8,10.244.0.0/16" },
		"must have the families": func(o *clusters.Options) {
			o.PodCIDR, o.ServiceCIDR = "fd00:1::/56,10.0.0.0/8", "10.96.0.0/16,fd00:2::/112"
		},
		"larger than a /108": func(o *clusters.Options) {
			o.PodCIDR, o.ServiceCIDR = "10.0.0.0/8,fd00:1::/56", "10.96.0.0/16,fd00:2::/64"
		},
		"--endpoint: 192.0.2.100:10259: kube-scheduler": func(o *clusters.Options) { o.Endpoint, o.Variables = "192.0.2.100:10259", nil },
		"--endpoint: 192.0.2.100 is not":                func(o *clusters.Options) { o.PodCIDR = "fd00:1::/56" },
		"--endpoint: 2001:db8::1 is not":                func(o *clusters.Options) { o.Endpoint, o.PodCIDR = "2001:db8::1", "10.0.0.0/8" },
		"--pod-cidr: 10.0.0.0/8":                        func(o *clusters.Options) { o.PodCIDR, o.Network.Flannel = "10.0.0.0/8", true },
		`--set: "a"`:                                    func(o *clusters.Options) { o.Variables = []string{"a"} },
		`--set: "a={"`:                                  func(o *clusters.Options) { o.Variables = []string{"a={"} },
		"--set: a is given twice":                       func(o *clusters.Options) { o.Variables = []string{"a=1", "a=2"} },
		"controlPlaneEndpointHost":                      func(o *clusters.Options) { o.Variables = []string{"controlPlaneEndpointHost=x"} },
		"--cni: the manifest has 2000000":               func(o *clusters.Options) { o.Network.Manifest = make([]byte, 2_000_000) },
	} {
		o := options()
		change(&o)
		_, err := clusters.New(o)
		var invalid *clusters.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	// The first of two is reported, each time.
	for range 20 {
		o := options()
		o.PodCIDR, o.ServiceCIDR = "x", "y"
		if _, err := clusters.New(o); err == nil || !strings.Contains(err.Error(), "--pod-cidr") {
			t.Fatalf("both networks are wrong: %v", err)
		}
	}
	o := options()
	o.ServiceCIDR = "y"
	if _, err := clusters.New(o); err == nil || !strings.Contains(err.Error(), "such as "+clusters.DefaultServiceCIDR) {
		t.Errorf("the service network is wrong: %v", err)
	}
	for _, value := range []string{"", "=1", "a", "a=", "a=-1", "a=x", "a=99999999999"} {
		if _, err := clusters.ParsePools([]string{value}); err == nil {
			t.Errorf("--pool %q is taken", value)
		}
	}
}

func TestChange(t *testing.T) {
	cluster, _ := made(t, options())
	cluster.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Name: "md"}}
	err := clusters.Change{
		ControlPlanes: ptr.To[int32](5), Version: "v1.37.0",
		Pools: []clusters.Pool{{Name: "gpu", Replicas: 4}, {Name: "md", Replicas: 1}},
	}.Apply(cluster)
	top := cluster.Spec.Topology
	if err != nil || *top.ControlPlane.Replicas != 5 || top.Version != "v1.37.0" || *top.Workers.MachinePools[0].Replicas != 2 ||
		*top.Workers.MachinePools[1].Replicas != 4 || *top.Workers.MachineDeployments[0].Replicas != 1 {
		t.Errorf("%v: %+v", err, top)
	}
	for want, change := range map[string]clusters.Change{
		"there is no db; the topology has pool, gpu, md": {ControlPlanes: ptr.To[int32](1), Pools: []clusters.Pool{{Name: "db"}}},
		"use 1, 3 or 5":                       {ControlPlanes: ptr.To[int32](4)},
		"v1.37.0 is not newer than v1.37.0":   {Version: "1.37.0"},
		"v1.36.9 is not newer than v1.37.0":   {Version: "v1.36.9"},
		`"one" is not a version such as v1.3`: {Version: "one"},
	} {
		before := cluster.DeepCopy()
		if err := change.Apply(cluster); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if *cluster.Spec.Topology.ControlPlane.Replicas != *before.Spec.Topology.ControlPlane.Replicas {
			t.Errorf("%s: a change that is refused has changed something", want)
		}
	}
	if err := (clusters.Change{Version: "v1.38.0"}).Apply(&clusterv1.Cluster{}); err == nil || !strings.Contains(err.Error(), "no topology") {
		t.Errorf("without a topology: %v", err)
	}
}

// reached is a Cluster that has all it asks for.
func reached(t *testing.T) *clusterv1.Cluster {
	t.Helper()
	c, _ := made(t, options())
	c.Generation, c.Status.ObservedGeneration = 2, 2
	for condition, status := range map[string]metav1.ConditionStatus{
		clusterv1.ClusterTopologyReconciledCondition: metav1.ConditionTrue, clusterv1.ClusterAvailableCondition: metav1.ConditionTrue,
		clusterv1.ClusterRollingOutCondition: metav1.ConditionFalse, clusterv1.ClusterScalingUpCondition: metav1.ConditionFalse,
	} {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: condition, Status: status, ObservedGeneration: 2, Reason: "R", Message: condition + " tells"})
	}
	c.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{DesiredReplicas: ptr.To[int32](3), ReadyReplicas: ptr.To[int32](3), UpToDateReplicas: ptr.To[int32](3),
		Versions: []clusterv1.StatusVersion{{Version: "v1.36.3", Replicas: 3}}}
	c.Status.Workers = &clusterv1.WorkersStatus{DesiredReplicas: ptr.To[int32](2), ReadyReplicas: ptr.To[int32](2), UpToDateReplicas: ptr.To[int32](2)}
	return c
}

func set(c *clusterv1.Cluster, condition string, status metav1.ConditionStatus) {
	for i := range c.Status.Conditions {
		if c.Status.Conditions[i].Type == condition {
			c.Status.Conditions[i].Status = status
		}
	}
}

// TestLook holds that nothing counts as reached but what is there, each thing by itself.
func TestLook(t *testing.T) {
	if s := clusters.Look(reached(t)); !s.Reached || s.Waiting != "" || s.ControlPlane.String() != "3/3" || s.Class != "slipway" {
		t.Fatalf("%+v", s)
	}
	for want, change := range map[string]func(*clusterv1.Cluster){
		"has not seen the change":        func(c *clusterv1.Cluster) { c.Generation = 3 },
		"topology is not reconciled yet": func(c *clusterv1.Cluster) { c.Generation, c.Status.ObservedGeneration = 3, 3 },
		"TopologyReconciled tells": func(c *clusterv1.Cluster) {
			set(c, clusterv1.ClusterTopologyReconciledCondition, metav1.ConditionFalse)
		},
		"control plane is to have 5": func(c *clusterv1.Cluster) { c.Spec.Topology.ControlPlane.Replicas = ptr.To[int32](5) },
		"workers are to be 6":        func(c *clusterv1.Cluster) { c.Spec.Topology.Workers.MachinePools[1].Replicas = ptr.To[int32](4) },
		"machines of v1.35.0 are to become v1.36.3": func(c *clusterv1.Cluster) {
			c.Status.Workers.Versions = []clusterv1.StatusVersion{{Version: "v1.35.0", Replicas: 1}}
		},
		"InfrastructureReady tells": func(c *clusterv1.Cluster) {
			set(c, clusterv1.ClusterRollingOutCondition, metav1.ConditionTrue)
			c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: clusterv1.ClusterInfrastructureReadyCondition, Status: metav1.ConditionFalse, Message: "InfrastructureReady tells"})
		},
		"RollingOut tells":            func(c *clusterv1.Cluster) { set(c, clusterv1.ClusterRollingOutCondition, metav1.ConditionTrue) },
		"Available tells":             func(c *clusterv1.Cluster) { set(c, clusterv1.ClusterAvailableCondition, metav1.ConditionFalse) },
		"2 of 3 control planes ready": func(c *clusterv1.Cluster) { c.Status.ControlPlane.ReadyReplicas = ptr.To[int32](2) },
		"1 of 2 workers up to date":   func(c *clusterv1.Cluster) { c.Status.Workers.UpToDateReplicas = ptr.To[int32](1) },
		"it is being deleted":         func(c *clusterv1.Cluster) { c.DeletionTimestamp = &metav1.Time{} },
	} {
		c := reached(t)
		change(c)
		if strings.HasPrefix(want, "it is being") {
			now := metav1.Now()
			c.DeletionTimestamp = &now
		}
		if s := clusters.Look(c); s.Reached || !strings.Contains(s.Waiting, want) {
			t.Errorf("got %+v, want %q", s, want)
		}
	}
	// what an autoscaler decides is not counted
	c := reached(t)
	c.Spec.Topology.Workers.MachinePools[0].Replicas = nil
	if s := clusters.Look(c); !s.Reached {
		t.Errorf("an autoscaler has a pool: %+v", s)
	}
}

func TestClass(t *testing.T) {
	objects, err := clusters.Class("ns")
	if err != nil {
		t.Fatal(err)
	}
	if last := objects[len(objects)-1]; len(objects) < 7 || last.GetObjectKind().GroupVersionKind().Kind != "ClusterClass" || last.GetName() != clusters.DefaultClass || last.GetNamespace() != "ns" {
		t.Errorf("%d objects, the last is %s", len(objects), last.GetName())
	}
}

// TestSetReadsWhatIsWritten holds that a variable has the value that its text says, or is refused with the quotes that it needs.
func TestSetReadsWhatIsWritten(t *testing.T) {
	o := options()
	for text, want := range map[string]string{
		"a": `"a"`, "1234": "1234", "-1.5": "-1.5", "true": "true", "null": "null", `"#fff"`: `"#fff"`, "'0123'": `"0123"`, "a#b": `"a#b"`, "{a: [b]}": `{"a":["b"]}`, "[a, b]": `["a","b"]`,
		"v1.36.5": `"v1.36.5"`, "10.0.0.0/8": `"10.0.0.0/8"`, "https://a:1/?b=c&d#e": `"https://a:1/?b=c\u0026d#e"`, "a b": `"a b"`, "2026-12-01": `"2026-12-01"`, "|-\n  a # b": `"a # b"`, "a: b\nc: d": `{"a":"b","c":"d"}`,
		"#fff": "", "a # b": "", "5 #5": "", "{a: b": "", "a: b": "", "- a": "", "&a": "", "&a b": "", "!a b": "", "~": "", "yes": "", "No": "", "on": "", "True": "", "0123": "", "0x1F": "", "1e3": "", "1.30": "", "1_000": "",
		"9007199254740993": "", " a": "", "a ": "", "a\nb": "", "a\n---\nb": "", "*a": "", "%a": "", "@a": "", "`a`": "",
	} {
		o.Variables = []string{"a=" + text}
		if want == "" {
			if _, err := clusters.New(o); err == nil || !strings.Contains(err.Error(), "--set") {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		cluster, _ := made(t, o)
		all := cluster.Spec.Topology.Variables
		if got := string(all[len(all)-1].Value.Raw); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}
