package hostcluster_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/controller/hostcluster"
	"github.com/slipway-dev/slipway/internal/testenv"
)

var (
	env *testenv.Env
	ctx = context.Background()
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, addToScheme, func(e *testenv.Env) error { env = e; return nil }))
}

func addToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, coordinationv1.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme, infrav1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}

// newCluster makes a Cluster with the given endpoint and returns its owner
// reference.
func newCluster(t *testing.T, namespace string, mutate func(*clusterv1.Cluster)) metav1.OwnerReference {
	t.Helper()
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "HostCluster", Name: "c1",
		}},
	}
	if mutate != nil {
		mutate(cluster)
	}
	if err := env.Client.Create(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	return metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID}
}

func reconcile(t *testing.T, hc *infrav1.HostCluster) *infrav1.HostCluster {
	t.Helper()
	return reconcileWith(t, hc, &events.FakeRecorder{})
}

func reconcileWith(t *testing.T, hc *infrav1.HostCluster, recorder events.EventRecorder) *infrav1.HostCluster {
	t.Helper()
	r := &hostcluster.Reconciler{Client: env.Client, APIReader: env.Client, Recorder: recorder}
	key := client.ObjectKeyFromObject(hc)
	for range 4 {
		if _, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	after := &infrav1.HostCluster{}
	if err := env.Client.Get(ctx, key, after); err != nil {
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return nil
	}
	return after
}

// The agent that holds the endpoint would take the address off the host that has it as its own.
func TestEndpointOfAHostIsRefused(t *testing.T) {
	testenv.Skip(t)
	for name, tc := range map[string]struct {
		endpoint string
		kind     infrav1.EndpointType
		refused  bool
	}{
		"address":            {"10.0.0.5", "", true},
		"IPv6, other text":   {"fd00:0::5", "", true},
		"free":               {"10.0.0.50", "", false},
		"of a load balancer": {"10.0.0.5", infrav1.EndpointExternal, false},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := env.Namespace(t)
			host := testenv.NewHost(t, env.Client, namespace, "host-1", time.Now()).Host(t)
			host.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.5"}, {Type: clusterv1.MachineInternalIP, Address: "fd00::5"}}
			if err := env.Client.Status().Update(ctx, host); err != nil {
				t.Fatal(err)
			}
			hc := &infrav1.HostCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"}}
			hc.Spec.ControlPlaneEndpoint.Host, hc.Spec.Endpoint.Type = tc.endpoint, tc.kind
			hc.OwnerReferences = []metav1.OwnerReference{newCluster(t, namespace, nil)}
			if err := env.Client.Create(ctx, hc); err != nil {
				t.Fatal(err)
			}
			got := reconcile(t, hc)
			ready := conditions.Get(got, clusterv1.ReadyCondition)
			refused := ready.Reason == infrav1.HostClusterEndpointOfHostReason && strings.Contains(ready.Message, "Host host-1")
			if refused != tc.refused || ptr.Deref(got.Status.Initialization.Provisioned, false) == tc.refused {
				t.Errorf("Ready = %+v, provisioned = %v", ready, got.Status.Initialization.Provisioned)
			}
		})
	}
}

// The second of two clusters with one endpoint waits until the first is gone.
func TestEndpointOfAnotherClusterIsRefused(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	var clusters []*infrav1.HostCluster
	for _, name := range []string{"c1", "c2"} {
		hc := &infrav1.HostCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		hc.Spec.ControlPlaneEndpoint.Host = "10.0.0.50"
		hc.OwnerReferences = []metav1.OwnerReference{newCluster(t, namespace, func(c *clusterv1.Cluster) { c.Name = name })}
		if err := env.Client.Create(ctx, hc); err != nil {
			t.Fatal(err)
		}
		clusters = append(clusters, reconcile(t, hc))
	}
	for i, want := range []string{infrav1.HostClusterProvisionedReason, infrav1.HostClusterEndpointOfClusterReason} {
		if got := conditions.GetReason(clusters[i], clusterv1.ReadyCondition); got != want || ptr.Deref(clusters[i].Status.Initialization.Provisioned, false) != (i == 0) {
			t.Errorf("%s: reason %s, want %s; provisioned %v", clusters[i].Name, got, want, clusters[i].Status.Initialization.Provisioned)
		}
	}
	if err := env.Client.Delete(ctx, clusters[0]); err != nil || reconcile(t, clusters[0]) != nil {
		t.Fatalf("the first cluster is not gone: %v", err)
	}
	if got := reconcile(t, clusters[1]); !ptr.Deref(got.Status.Initialization.Provisioned, false) {
		t.Errorf("still %+v", conditions.Get(got, clusterv1.ReadyCondition))
	}
}

// Of two clusters that come at the same time one is provisioned, also while the cache is behind: neither may
// have its endpoint yet, which is the Cluster's.
func TestEndpointOfTwoNewClusters(t *testing.T) {
	testenv.Skip(t)
	behind, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	behind = interceptor.NewClient(behind, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, ok := list.(*infrav1.HostClusterList); ok {
			return nil
		}
		return c.List(ctx, list, opts...)
	}})
	r := &hostcluster.Reconciler{Client: behind, APIReader: env.Client, Recorder: &events.FakeRecorder{}}
	for range 10 {
		namespace, address := env.Namespace(t), clusterv1.APIEndpoint{Host: "10.0.0.50", Port: 8443}
		var wg sync.WaitGroup
		for _, name := range []string{"c2", "c1"} {
			hc := &infrav1.HostCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			hc.OwnerReferences = []metav1.OwnerReference{newCluster(t, namespace, func(c *clusterv1.Cluster) { c.Name, c.Spec.ControlPlaneEndpoint = name, address })}
			if err := env.Client.Create(ctx, hc); err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				for range 4 {
					if _, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(hc)}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		all := &infrav1.HostClusterList{}
		if err := env.Client.List(ctx, all, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		provisioned := 0
		for _, hc := range all.Items {
			if ptr.Deref(hc.Status.Initialization.Provisioned, false) {
				provisioned++
			}
		}
		if len(all.Items) != 2 || provisioned != 1 {
			t.Fatalf("%d of %d clusters are provisioned, want 1 of 2", provisioned, len(all.Items))
		}
	}
}

func TestEndpoint(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster  func(*clusterv1.Cluster)
		spec     infrav1.HostClusterSpec
		want     clusterv1.APIEndpoint
		reason   string
		message  string
		provided bool
	}{
		"complete": {
			spec: infrav1.HostClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "10.0.0.1", Port: 7443}},
			want: clusterv1.APIEndpoint{Host: "10.0.0.1", Port: 7443}, reason: "Provisioned", provided: true,
		},
		"default port": {
			spec: infrav1.HostClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "fd00::1"}},
			want: clusterv1.APIEndpoint{Host: "fd00::1", Port: 6443}, reason: "Provisioned", provided: true,
		},
		"from the Cluster": {
			cluster: func(c *clusterv1.Cluster) {
				c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.0.0.2", Port: 6443}
			},
			want: clusterv1.APIEndpoint{Host: "10.0.0.2", Port: 6443}, reason: "Provisioned", provided: true,
		},
		"missing": {reason: "EndpointMissing", message: "unused IP address"},
		"missing, external": {
			spec:   infrav1.HostClusterSpec{Endpoint: infrav1.EndpointSpec{Type: infrav1.EndpointExternal}},
			reason: "EndpointMissing", message: "load balancer",
		},
		"name, external": {
			spec: infrav1.HostClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "api.example"}, Endpoint: infrav1.EndpointSpec{Type: infrav1.EndpointExternal}},
			want: clusterv1.APIEndpoint{Host: "api.example", Port: 6443}, reason: "Provisioned", provided: true,
		},
		"name held by hosts": {
			spec: infrav1.HostClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "api.example"}},
			want: clusterv1.APIEndpoint{Host: "api.example", Port: 6443}, reason: "EndpointInvalid", message: "not an IP address",
		},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Skip(t)
			namespace := env.Namespace(t)
			hc := &infrav1.HostCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"}, Spec: tc.spec}
			hc.OwnerReferences = []metav1.OwnerReference{newCluster(t, namespace, tc.cluster)}
			if err := env.Client.Create(ctx, hc); err != nil {
				t.Fatal(err)
			}
			got := reconcile(t, hc)
			ready := conditions.Get(got, clusterv1.ReadyCondition)
			if ready == nil || ready.Reason != tc.reason || !strings.Contains(ready.Message, tc.message) {
				t.Errorf("Ready = %+v", ready)
			}
			if got.Spec.ControlPlaneEndpoint != tc.want {
				t.Errorf("endpoint = %+v, want %+v", got.Spec.ControlPlaneEndpoint, tc.want)
			}
			if ptr.Deref(got.Status.Initialization.Provisioned, false) != tc.provided {
				t.Errorf("provisioned = %v", got.Status.Initialization.Provisioned)
			}
		})
	}
}

func TestEndpointCannotChange(t *testing.T) {
	testenv.Skip(t)
	hc := &infrav1.HostCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "c1"},
		Spec:       infrav1.HostClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "10.0.0.1"}},
	}
	if err := env.Client.Create(ctx, hc); err != nil {
		t.Fatal(err)
	}
	hc.Spec.ControlPlaneEndpoint.Port = 6443
	if err := env.Client.Update(ctx, hc); err != nil {
		t.Fatalf("the port can't be completed: %v", err)
	}
	for name, change := range map[string]func(*clusterv1.APIEndpoint){
		"host":    func(e *clusterv1.APIEndpoint) { e.Host = "10.0.0.2" },
		"port":    func(e *clusterv1.APIEndpoint) { e.Port = 1 },
		"no host": func(e *clusterv1.APIEndpoint) { e.Host = "" },
		"removed": func(e *clusterv1.APIEndpoint) { *e = clusterv1.APIEndpoint{} },
	} {
		changed := hc.DeepCopy()
		change(&changed.Spec.ControlPlaneEndpoint)
		if err := env.Client.Update(ctx, changed, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "cannot change once set") {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

// Hosts learn with their bootstrap who holds the address: once there is one, another type
// would leave some of them holding it beside a load balancer, or nobody.
func TestEndpointTypeCannotChange(t *testing.T) {
	testenv.Skip(t)
	for name, tc := range map[string]struct {
		host     string
		from, to infrav1.EndpointType
		refused  bool
	}{
		"to a load balancer":         {"10.0.0.1", infrav1.EndpointHostVIP, infrav1.EndpointExternal, true},
		"by default to one":          {"10.0.0.1", "", infrav1.EndpointExternal, true},
		"from one":                   {"10.0.0.1", infrav1.EndpointExternal, infrav1.EndpointHostVIP, true},
		"from one to the default":    {"10.0.0.1", infrav1.EndpointExternal, "", true},
		"the default in words":       {"10.0.0.1", "", infrav1.EndpointHostVIP, false},
		"before there is an address": {"", infrav1.EndpointHostVIP, infrav1.EndpointExternal, false},
	} {
		namespace := env.Namespace(t)
		hc := &infrav1.HostCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"},
			Spec:       infrav1.HostClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: tc.host}, Endpoint: infrav1.EndpointSpec{Type: tc.from}},
		}
		if err := env.Client.Create(ctx, hc); err != nil {
			t.Fatal(err)
		}
		hc.Spec.Endpoint.Type = tc.to
		err := env.Client.Update(ctx, hc)
		if (err != nil) != tc.refused || (tc.refused && !strings.Contains(err.Error(), "spec.endpoint.type cannot change once")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFailureDomains(t *testing.T) {
	testenv.Skip(t)
	for label, want := range map[string]string{"": "rack-1 rack-2", "row": "b"} {
		namespace := env.Namespace(t)
		for name, rack := range map[string]string{"h1": "rack-2", "h2": "rack-1", "h3": "rack-2", "h4": ""} {
			h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: infrav1.HostSpec{FailureDomain: rack}}
			if name == "h4" {
				h.Labels = map[string]string{"row": "b"}
			}
			if err := env.Client.Create(ctx, h); err != nil {
				t.Fatal(err)
			}
		}
		hc := &infrav1.HostCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"}}
		hc.OwnerReferences = []metav1.OwnerReference{newCluster(t, namespace, nil)}
		hc.Spec.FailureDomainLabel = label
		if err := env.Client.Create(ctx, hc); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, domain := range reconcile(t, hc).Status.FailureDomains {
			if !ptr.Deref(domain.ControlPlane, false) {
				t.Errorf("%s may not hold control planes", domain.Name)
			}
			names = append(names, domain.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("label %q: domains %q, want %q", label, got, want)
		}
	}
}

func TestDeletion(t *testing.T) {
	for name, tc := range map[string]struct {
		owner, ownerGone bool
		label            string
	}{
		"with an owner":                 {owner: true},
		"with an owner that is gone":    {owner: true, ownerGone: true, label: "c1"},
		"without an owner":              {label: "c1"},
		"without an owner and label":    {},
		"without an owner, other label": {label: "c2"},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Skip(t)
			namespace := env.Namespace(t)
			hc := &infrav1.HostCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1", Finalizers: []string{infrav1.HostClusterFinalizer}}}
			if tc.label != "" {
				hc.Labels = map[string]string{clusterv1.ClusterNameLabel: tc.label}
			}
			if tc.owner {
				hc.OwnerReferences = []metav1.OwnerReference{newCluster(t, namespace, nil)}
			}
			if tc.ownerGone {
				if err := env.Client.Delete(ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"}}); err != nil {
					t.Fatal(err)
				}
			}
			machine := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m1", Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}}}
			if err := errors.Join(env.Client.Create(ctx, hc), env.Client.Create(ctx, machine), env.Client.Delete(ctx, hc)); err != nil {
				t.Fatal(err)
			}
			got := reconcile(t, hc)
			if known := tc.owner || tc.label == "c1"; known != (got != nil) {
				t.Fatalf("with a machine of the cluster it is %+v", got)
			}
			if got != nil {
				ready := conditions.Get(got, clusterv1.ReadyCondition)
				if ready == nil || ready.Reason != clusterv1.DeletingReason || !strings.Contains(ready.Message, "1 HostMachines") {
					t.Errorf("Ready = %+v", ready)
				}
			}
			if err := env.Client.Delete(ctx, machine); err != nil {
				t.Fatal(err)
			}
			if got := reconcile(t, hc); got != nil {
				t.Errorf("does not go: %+v", got)
			}
		})
	}
}

func TestEndpointHeld(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	report := func(name, cluster string, state infrav1.VirtualIPState, term int32, connected metav1.ConditionStatus, message string) {
		t.Helper()
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if _, err := controllerutil.CreateOrUpdate(ctx, env.Client, h, func() error {
			h.Spec.Claim = &infrav1.HostClaim{MachineName: name, ClusterName: cluster, ClaimID: name}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		h.Status.VirtualIP = &infrav1.VirtualIPStatus{Address: "10.0.0.1", State: state, Port: 6443, APIServer: infrav1.VirtualIPAPIServerAnswering, Term: term, Message: message}
		conditions.Set(h, metav1.Condition{Type: infrav1.AgentConnectedCondition, Status: connected, Reason: "Test"})
		if err := env.Client.Status().Update(ctx, h); err != nil {
			t.Fatal(err)
		}
	}
	hc := &infrav1.HostCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"}}
	hc.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.0.0.1", Port: 6443}
	hc.OwnerReferences = []metav1.OwnerReference{newCluster(t, namespace, nil)}
	if err := env.Client.Create(ctx, hc); err != nil {
		t.Fatal(err)
	}
	recorder := events.NewFakeRecorder(20)
	check := func(status metav1.ConditionStatus, reason, message string) {
		t.Helper()
		got := conditions.Get(reconcileWith(t, hc, recorder), infrav1.EndpointHeldCondition)
		if got == nil || got.Status != status || got.Reason != reason || !strings.Contains(got.Message, message) {
			t.Errorf("EndpointHeld = %+v, want %s %s %q", got, status, reason, message)
		}
	}
	// told wants one event of the reason since the last time, however often it was reconciled.
	told := func(reason, message string) {
		t.Helper()
		found := 0
		for len(recorder.Events) > 0 {
			if e := <-recorder.Events; strings.Contains(e, "Warning "+reason) && strings.Contains(e, message) {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%d events %s of %q", found, reason, message)
		}
	}
	check(metav1.ConditionFalse, "NoControlPlaneHost", "10.0.0.1")
	report("other", "c2", infrav1.VirtualIPHeld, 9, metav1.ConditionTrue, "")
	report("h1", "c1", infrav1.VirtualIPStandby, 0, metav1.ConditionTrue, "the machine 02:00 answers")
	check(metav1.ConditionFalse, "NotHeld", "h1: the machine 02:00 answers")
	told("EndpointNotHeld", "02:00")
	report("h1", "c1", infrav1.VirtualIPHeld, 1, metav1.ConditionTrue, "")
	report("h2", "c1", infrav1.VirtualIPStandby, 1, metav1.ConditionTrue, "")
	check(metav1.ConditionTrue, "Held", "h1 holds")
	report("h2", "c1", infrav1.VirtualIPStandby, 1, metav1.ConditionTrue, "no route to the Lease")
	check(metav1.ConditionTrue, "Held", "h2: no route to the Lease")
	// Two machines have the address: the host that was elected, and one that was not. Of the
	// other one only its MAC address is known.
	duplicate := func(h string, mac string, change func(*infrav1.Host)) {
		t.Helper()
		o := &infrav1.Host{}
		if err := env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: h}, o); err != nil {
			t.Fatal(err)
		}
		o.Status.VirtualIP.DuplicateMACAddress = mac
		change(o)
		if err := env.Client.Status().Update(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	mac := func(name, mac string) {
		t.Helper()
		o := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if _, err := controllerutil.CreateOrUpdate(ctx, env.Client, o, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		if o.Status.VirtualIP != nil {
			o.Status.VirtualIP.MACAddress = mac
		} else {
			o.Status.Inventory.Hardware.NetworkInterfaces = []infrav1.HostNetworkInterface{{Name: "eno1", MACAddress: mac}}
		}
		if err := env.Client.Status().Update(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	mac("h1", "02:00:00:00:00:01")
	mac("h2", "02:00:00:00:00:0A")
	mac("other", "02:00:00:00:00:03")
	mac("spare", "02:00:00:00:00:04")
	for _, c := range []struct{ mac, reason, message string }{
		{"02:00:00:00:00:99", "Contested", "h1: 10.0.0.1 is in use by an unknown machine (MAC address 02:00:00:00:00:99): remove the address there"},
		{"02:00:00:00:00:0a", "HeldTwice", "h1: 10.0.0.1 is in use by Host h2 of this cluster: do not remove it by hand"},
		{"02:00:00:00:00:03", "Contested", "h1: 10.0.0.1 is in use by Host other of Cluster c2: choose an unused address"},
		{"02:00:00:00:00:04", "Contested", "h1: 10.0.0.1 is in use by Host spare, which serves no cluster"},
	} {
		duplicate("h1", c.mac, func(h *infrav1.Host) { h.Status.VirtualIP.Message = "another machine, with the MAC address " + c.mac })
		check(metav1.ConditionFalse, c.reason, c.message)
		told("Endpoint"+c.reason, c.message)
	}
	// A host that is to make a control plane finds the address taken.
	duplicate("h1", "02:00:00:00:00:99", func(h *infrav1.Host) { h.Status.VirtualIP.State = infrav1.VirtualIPStandby })
	check(metav1.ConditionFalse, "Contested", "No host holds 10.0.0.1, of 2 that may; h1: 10.0.0.1 is in use by an unknown machine")
	// A member whose agent hangs has it, and nobody is elected.
	mac("h2", "02:00:00:00:00:0A")
	duplicate("h1", "02:00:00:00:00:0A", func(*infrav1.Host) {})
	check(metav1.ConditionFalse, "NotHeld", "h1: 10.0.0.1 is in use by Host h2 of this cluster")
	// The elected host is told to nobody as the one that is wrong.
	report("h2", "c1", infrav1.VirtualIPHeld, 1, metav1.ConditionTrue, "")
	mac("h2", "02:00:00:00:00:0A")
	duplicate("h1", "02:00:00:00:00:0A", func(*infrav1.Host) {})
	check(metav1.ConditionTrue, "Held", "Host h2 holds 10.0.0.1, and the API server answers at 10.0.0.1:6443; h1: 10.0.0.1 is in use by Host h2 of this cluster: do not remove it by hand")
	for len(recorder.Events) > 0 {
		<-recorder.Events
	}
	report("h1", "c1", infrav1.VirtualIPHeld, 1, metav1.ConditionTrue, "the machine 02:99 answers")
	check(metav1.ConditionFalse, "Contested", "h1: the machine 02:99 answers")
	told("EndpointContested", "02:99")
	report("h2", "c1", infrav1.VirtualIPStandby, 1, metav1.ConditionTrue, "")
	report("h1", "c1", infrav1.VirtualIPHeld, 1, metav1.ConditionFalse, "")
	check(metav1.ConditionUnknown, "HolderNotConnected", "h1 held")
	// The host that was cut off never took its report back.
	report("h2", "c1", infrav1.VirtualIPHeld, 2, metav1.ConditionTrue, "")
	check(metav1.ConditionTrue, "Held", "h2 holds")
}

func TestLifecycle(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	hc := &infrav1.HostCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"}}
	hc.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.0.0.1"}
	if err := env.Client.Create(ctx, hc); err != nil {
		t.Fatal(err)
	}
	if got := reconcile(t, hc); len(got.Finalizers) > 0 || len(got.Status.Conditions) > 0 {
		t.Errorf("touched before it has an owner: %+v", got)
	}
	hc = reconcile(t, hc)
	hc.OwnerReferences = []metav1.OwnerReference{newCluster(t, namespace, nil)}
	hc.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "someone"}
	if err := env.Client.Update(ctx, hc); err != nil {
		t.Fatal(err)
	}
	if hc = reconcile(t, hc); len(hc.Finalizers) > 0 {
		t.Errorf("touched although externally managed: %+v", hc)
	}
	hc.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	if err := env.Client.Update(ctx, hc); err != nil {
		t.Fatal(err)
	}
	if hc = reconcile(t, hc); !conditions.IsTrue(hc, clusterv1.PausedCondition) || hc.Spec.ControlPlaneEndpoint.Port != 0 {
		t.Errorf("went on while paused: %+v", hc)
	}
	hc.Annotations = nil
	if err := env.Client.Update(ctx, hc); err != nil {
		t.Fatal(err)
	}
	if hc = reconcile(t, hc); !conditions.IsTrue(hc, clusterv1.ReadyCondition) || len(hc.Finalizers) != 1 {
		t.Errorf("not provisioned: %+v", hc)
	}
	if err := env.Client.Delete(ctx, hc); err != nil {
		t.Fatal(err)
	}
	if hc = reconcile(t, hc); hc != nil {
		t.Errorf("does not go: %+v", hc)
	}
}

// An error ends the reconcile, and nothing that it left unknown is reported as good.
func TestAnErrorIsNeverReady(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	hc := &infrav1.HostCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1", OwnerReferences: []metav1.OwnerReference{newCluster(t, namespace, nil)}},
		Spec:       infrav1.HostClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "10.0.0.1", Port: 6443}},
	}
	if err := env.Client.Create(ctx, hc); err != nil {
		t.Fatal(err)
	}
	broken := interceptor.NewClient(env.Client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*infrav1.HostList); ok {
				return errors.New("no hosts today")
			}
			return c.List(ctx, list, options...)
		},
	})
	r := &hostcluster.Reconciler{Client: broken, APIReader: broken, Recorder: &events.FakeRecorder{}}
	var err error
	for range 4 {
		_, err = r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(hc)})
	}
	if err == nil || !strings.Contains(err.Error(), "no hosts today") {
		t.Errorf("the error is swallowed: %v", err)
	}
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(hc), hc); err != nil {
		t.Fatal(err)
	}
	if conditions.IsTrue(hc, clusterv1.ReadyCondition) || ptr.Deref(hc.Status.Initialization.Provisioned, false) {
		t.Errorf("ready after an error: %+v", hc.Status)
	}
	if hc = reconcile(t, hc); !conditions.IsTrue(hc, clusterv1.ReadyCondition) {
		t.Errorf("not ready without an error: %+v", hc.Status)
	}

	// Every condition is of the generation that it was computed from.
	hc.Spec.FailureDomainLabel = "rack"
	if err := env.Client.Update(ctx, hc); err != nil {
		t.Fatal(err)
	}
	hc = reconcile(t, hc)
	for _, condition := range hc.Status.Conditions {
		if condition.ObservedGeneration != hc.Generation {
			t.Errorf("%s is of generation %d, the object of %d", condition.Type, condition.ObservedGeneration, hc.Generation)
		}
	}
}

// After an error nothing is known that Ready could tell: it stays as it is, true or not, also
// while the HostCluster is being deleted.
func TestErrorLeavesReadyAsItIs(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	hc := &infrav1.HostCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"}}
	hc.OwnerReferences = []metav1.OwnerReference{newCluster(t, namespace, nil)}
	create(t, hc)
	create(t, &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m", Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}}})
	unanswered := interceptor.NewClient(env.Client, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("no lists today")
		},
	})
	failing := &hostcluster.Reconciler{Client: unanswered, APIReader: env.Client, Recorder: &events.FakeRecorder{}}
	stays := func(status metav1.ConditionStatus, reason string) {
		t.Helper()
		if _, err := failing.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(hc)}); err == nil {
			t.Fatal("the error is swallowed")
		}
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(hc), hc); err != nil {
			t.Fatal(err)
		}
		if ready := conditions.Get(hc, clusterv1.ReadyCondition); ready.Status != status || ready.Reason != reason {
			t.Errorf("Ready = %+v, want %s, %s", ready, status, reason)
		}
	}

	hc = reconcile(t, hc)
	stays(metav1.ConditionFalse, "EndpointMissing")
	hc.Spec.ControlPlaneEndpoint.Host = "10.0.0.1"
	if err := env.Client.Update(ctx, hc); err != nil {
		t.Fatal(err)
	}
	stays(metav1.ConditionFalse, "EndpointMissing")
	hc = reconcile(t, hc)
	stays(metav1.ConditionTrue, "Provisioned")
	if err := env.Client.Delete(ctx, hc); err != nil {
		t.Fatal(err)
	}
	stays(metav1.ConditionTrue, "Provisioned")
	hc = reconcile(t, hc)
	stays(metav1.ConditionFalse, clusterv1.DeletingReason)
}

// TestTakenOverByAnotherSystem holds that a HostCluster which becomes externally managed loses this
// provider's finalizer and nothing else, so that its new manager can delete it.
func TestTakenOverByAnotherSystem(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	const other = "example.com/other"
	hc := &infrav1.HostCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "c1", Finalizers: []string{other, infrav1.HostClusterFinalizer},
		Annotations: map[string]string{clusterv1.ManagedByAnnotation: "another system", clusterv1.PausedAnnotation: ""},
	}}
	if err := env.Client.Create(ctx, hc); err != nil {
		t.Fatal(err)
	}
	if hc = reconcile(t, hc); len(hc.Finalizers) != 2 {
		t.Errorf("changed while paused: %v", hc.Finalizers)
	}
	delete(hc.Annotations, clusterv1.PausedAnnotation)
	if err := env.Client.Update(ctx, hc); err != nil {
		t.Fatal(err)
	}
	if hc = reconcile(t, hc); !slices.Equal(hc.Finalizers, []string{other}) || len(hc.Status.Conditions) > 0 {
		t.Errorf("finalizers %v, conditions %v", hc.Finalizers, hc.Status.Conditions)
	}
	before := hc.ResourceVersion
	if hc = reconcile(t, hc); hc.ResourceVersion != before {
		t.Error("written again")
	}
}
