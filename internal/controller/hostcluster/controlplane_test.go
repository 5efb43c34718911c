package hostcluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

const version = "v1.36.3"

var errBroken = errors.New("broken")

// store is an API server or a cache with these objects.
func store(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(infrav1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), controlplanev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// without fails each read of an object of that type, and each list of one.
func without[T any](c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if _, ok := o.(T); ok {
				return errBroken
			}
			return c.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(T); ok {
				return errBroken
			}
			return c.List(ctx, list, options...)
		},
	})
}

func kubeadmControlPlane(change ...func(*controlplanev1.KubeadmControlPlane)) *controlplanev1.KubeadmControlPlane {
	plane := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "plane"}}
	plane.Spec.Version = version
	plane.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachineTemplate", Name: "machines",
	}
	for _, c := range change {
		c(plane)
	}
	return plane
}

func machineTemplate(selector *metav1.LabelSelector) *infrav1.HostMachineTemplate {
	template := &infrav1.HostMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "machines"}}
	template.Spec.Template.Spec.HostSelector = selector
	return template
}

// machine is a HostMachine of a cluster's control plane, or of its workers.
func machine(name, cluster string, controlPlane bool, change ...func(*infrav1.HostMachine)) *infrav1.HostMachine {
	m := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}}}
	if controlPlane {
		m.Labels[clusterv1.MachineControlPlaneLabel] = ""
	}
	for _, c := range change {
		c(m)
	}
	return m
}

// aHost is free, connected, and has the control plane's version.
func aHost(change ...func(*infrav1.Host)) *infrav1.Host {
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "host", Labels: map[string]string{"role": "plane"}}}
	h.Status.BootID, h.Status.CleanProof = "boot", &infrav1.CleanProof{}
	h.Status.Inventory.Architecture, h.Status.Inventory.KubernetesVersions = "amd64", []string{version}
	h.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	connect(h, metav1.ConditionTrue)
	for _, c := range change {
		c(h)
	}
	return h
}

func connect(h *infrav1.Host, status metav1.ConditionStatus) {
	h.Status.Conditions = []metav1.Condition{{Type: infrav1.AgentConnectedCondition, Status: status}}
}

func claimed(name string) func(*infrav1.Host) {
	return func(h *infrav1.Host) {
		h.Spec.Claim, h.Spec.ClaimGeneration = &infrav1.HostClaim{ClusterName: "c1", MachineName: name, ClaimID: "id"}, 1
	}
}

func controlPlaneScope() *scope {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c1"}}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: "plane"}
	return &scope{cluster: cluster, hostCluster: &infrav1.HostCluster{}}
}

// What each host is worth to a control plane whose machines and replicas are as they should be.
func TestStandingOfHosts(t *testing.T) {
	release := &infrav1.KubernetesRelease{ObjectMeta: metav1.ObjectMeta{Name: version}}
	release.Spec.Version, release.Spec.Architectures = version, []string{"amd64"}
	away := func(h *infrav1.Host) { connect(h, metav1.ConditionFalse) }
	reset := func(h *infrav1.Host) {
		h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredReset, OperationID: "reset"}
	}
	onDemand := func(h *infrav1.Host) {
		h.Status.Inventory.KubernetesVersions = []string{"v1.30.0"}
		h.Status.Software.Management = infrav1.HostSoftwareManaged
	}
	for name, tc := range map[string]struct {
		host *infrav1.Host
		want standing
	}{
		"free":                        {aHost(), now},
		"free, of which nobody knows": {aHost(func(h *infrav1.Host) { h.Status.Conditions = nil }), now},
		"away":                        {aHost(away), later},
		"enrolling":                   {aHost(func(h *infrav1.Host) { h.Status.CleanProof, h.Status.BootID = nil, "" }), now},
		"enrolling, away":             {aHost(func(h *infrav1.Host) { h.Status.CleanProof, h.Status.BootID = nil, "" }, away), later},
		"quarantined":                 {aHost(func(h *infrav1.Host) { h.Status.Residue = []string{"etcd"}; h.Status.CleanProof = nil }), later},
		"with a cloned identity": {aHost(func(h *infrav1.Host) {
			h.Status.Conditions = append(h.Status.Conditions, metav1.Condition{Type: infrav1.DuplicateIdentityCondition, Status: metav1.ConditionTrue, Reason: "R"})
		}), later},
		"not approved":                        {aHost(func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalPending }), never},
		"for workers":                         {aHost(func(h *infrav1.Host) { h.Labels["role"] = "worker" }), never},
		"of another version":                  {aHost(func(h *infrav1.Host) { h.Status.Inventory.KubernetesVersions = []string{"v1.30.0"} }), never},
		"that installs the version":           {aHost(onDemand), now},
		"that cannot install it":              {aHost(onDemand, func(h *infrav1.Host) { h.Status.Inventory.Architecture = "arm64" }), never},
		"that has yet to report its versions": {aHost(func(h *infrav1.Host) { h.Status.Inventory.KubernetesVersions = nil }), now},
		"of the control plane":                {aHost(claimed("plane-1")), later},
		"of a machine that is gone":           {aHost(claimed("gone")), later},
		"of a worker":                         {aHost(claimed("worker-1")), never},
		"of another control plane":            {aHost(claimed("other-1")), never},
		"given up by a worker":                {aHost(claimed("worker-1"), reset), now},
		"given up, away":                      {aHost(claimed("worker-1"), reset, away), later},
		"of a worker, for workers":            {aHost(claimed("plane-1"), func(h *infrav1.Host) { h.Labels["role"] = "worker" }), never},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{
				APIReader: store(t, kubeadmControlPlane()),
				Client: store(t, machineTemplate(&metav1.LabelSelector{MatchLabels: map[string]string{"role": "plane"}}), release,
					machine("plane-1", "c1", true), machine("other-1", "c2", true), machine("worker-1", "c1", false)),
			}
			s := controlPlaneScope()
			worth, err := r.controlPlaneHosts(t.Context(), s)
			if err != nil || s.problem != nil || s.requeueAfter != controlPlaneInterval {
				t.Fatalf("error %v, problem %v, again after %s", err, s.problem, s.requeueAfter)
			}
			if got := worth(tc.host); got != tc.want {
				t.Errorf("worth %d, want %d", got, tc.want)
			}
		})
	}
}

// Of another provider's control plane nothing is known: it may use any host, without polling. What
// does not exist yet is polled for, and delays a Cluster that is not provisioned.
func TestControlPlaneThatIsNotKubeadms(t *testing.T) {
	plane, template := kubeadmControlPlane(), machineTemplate(nil)
	notThere := &problem{infrav1.HostClusterWaitingForControlPlaneReason, "Waiting for KubeadmControlPlane plane, which says where control planes may be"}
	noTemplate := &problem{infrav1.HostClusterWaitingForControlPlaneReason, "Waiting for HostMachineTemplate machines, which says where control planes may be"}
	for name, tc := range map[string]struct {
		change       func(s *scope)
		live, cached client.WithWatch
		after        time.Duration
		problem      *problem
		fails        bool
	}{
		"none":         {change: func(s *scope) { s.cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{} }},
		"another kind": {change: func(s *scope) { s.cluster.Spec.ControlPlaneRef.Kind = "OtherControlPlane" }},
		"another group": {change: func(s *scope) {
			s.cluster.Spec.ControlPlaneRef.APIGroup = "controlplane.example.com"
		}},
		"on machines of another kind": {
			live: store(t, kubeadmControlPlane(func(p *controlplanev1.KubeadmControlPlane) {
				p.Spec.MachineTemplate.Spec.InfrastructureRef.Kind = "OtherMachineTemplate"
			})), after: controlPlaneInterval,
		},
		"on machines of another group": {
			live: store(t, kubeadmControlPlane(func(p *controlplanev1.KubeadmControlPlane) {
				p.Spec.MachineTemplate.Spec.InfrastructureRef.APIGroup = "infrastructure.example.com"
			})), after: controlPlaneInterval,
		},
		"not there": {live: store(t), after: controlPlaneRetry, problem: notThere},
		"in another namespace": {
			live:  store(t, kubeadmControlPlane(func(p *controlplanev1.KubeadmControlPlane) { p.Namespace = "other" })),
			after: controlPlaneRetry, problem: notThere,
		},
		"not there any more": {
			live: store(t), after: controlPlaneRetry,
			change: func(s *scope) { s.hostCluster.Status.Initialization.Provisioned = ptr.To(true) },
		},
		"not there, and another problem": {
			live: store(t), after: controlPlaneRetry, problem: &problem{"Other", ""},
			change: func(s *scope) { s.problem = &problem{"Other", ""} },
		},
		"without its template":        {live: store(t, plane), cached: store(t), after: controlPlaneRetry, problem: noTemplate},
		"that is not read":            {live: without[*controlplanev1.KubeadmControlPlane](store(t, plane)), after: controlPlaneInterval, fails: true},
		"whose template is not read":  {live: store(t, plane), cached: without[*infrav1.HostMachineTemplate](store(t)), after: controlPlaneInterval, fails: true},
		"whose release is not read":   {live: store(t, plane), cached: without[*infrav1.KubernetesRelease](store(t, template)), after: controlPlaneInterval, fails: true},
		"whose machines are not read": {live: store(t, plane), cached: without[*infrav1.HostMachineList](store(t, template)), after: controlPlaneInterval, fails: true},
		"whose selector says nothing": {
			live: store(t, plane), after: controlPlaneInterval, fails: true,
			cached: store(t, machineTemplate(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}})),
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := controlPlaneScope()
			if tc.change != nil {
				tc.change(s)
			}
			r := &Reconciler{APIReader: tc.live, Client: tc.cached}
			worth, err := r.controlPlaneHosts(t.Context(), s)
			if (err != nil) != tc.fails || s.requeueAfter != tc.after {
				t.Errorf("error %v, again after %s", err, s.requeueAfter)
			}
			if (s.problem == nil) != (tc.problem == nil) || tc.problem != nil && *s.problem != *tc.problem {
				t.Errorf("problem %+v, want %+v", s.problem, tc.problem)
			}
			if err == nil && worth(aHost(claimed("worker-1"), func(h *infrav1.Host) { h.Labels = nil })) != now {
				t.Error("some hosts are not for it")
			}
		})
	}
}

// A control plane with machines to spare deletes one: its own hosts are worth as much as free ones
// then, and those of a machine that is being deleted are none that it has to spare.
func TestSurplusOfTheControlPlane(t *testing.T) {
	deleted := func(m *infrav1.HostMachine) {
		m.DeletionTimestamp, m.Finalizers = ptr.To(metav1.Now()), []string{infrav1.HostMachineFinalizer}
	}
	elsewhere := func(m *infrav1.HostMachine) { m.Namespace = "other" }
	for name, tc := range map[string]struct {
		machines []client.Object
		replicas *int32
		want     standing
	}{
		"as many as wanted":                    {machines: []client.Object{machine("a", "c1", true)}, replicas: ptr.To[int32](1), want: later},
		"as many as by default":                {machines: []client.Object{machine("a", "c1", true)}, want: later},
		"more than by default":                 {machines: []client.Object{machine("a", "c1", true), machine("b", "c1", true)}, want: now},
		"one too many":                         {machines: []client.Object{machine("a", "c1", true), machine("b", "c1", true)}, replicas: ptr.To[int32](1), want: now},
		"more are wanted":                      {machines: []client.Object{machine("a", "c1", true), machine("b", "c1", true)}, replicas: ptr.To[int32](3), want: later},
		"one too many, which is being deleted": {machines: []client.Object{machine("a", "c1", true), machine("b", "c1", true, deleted)}, replicas: ptr.To[int32](1), want: later},
		"others are workers":                   {machines: []client.Object{machine("a", "c1", true), machine("b", "c1", false)}, replicas: ptr.To[int32](1), want: later},
		"others are another cluster's":         {machines: []client.Object{machine("a", "c1", true), machine("b", "c2", true)}, replicas: ptr.To[int32](1), want: later},
		"others are of another namespace":      {machines: []client.Object{machine("a", "c1", true), machine("b", "c1", true, elsewhere)}, replicas: ptr.To[int32](1), want: later},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{
				APIReader: store(t, kubeadmControlPlane(func(p *controlplanev1.KubeadmControlPlane) { p.Spec.Replicas = tc.replicas })),
				Client:    store(t, append(tc.machines, machineTemplate(nil))...),
			}
			worth, err := r.controlPlaneHosts(t.Context(), controlPlaneScope())
			if err != nil {
				t.Fatal(err)
			}
			if got := worth(aHost(claimed("a"))); got != tc.want {
				t.Errorf("its own host is worth %d, want %d", got, tc.want)
			}
			if got := worth(aHost(claimed("gone"))); got != later {
				t.Errorf("the host of a machine that is gone is worth %d", got)
			}
		})
	}
}

// Which domains control planes may use, by what the hosts in them are worth.
func TestDomainsForControlPlanes(t *testing.T) {
	worth := map[string]standing{"free": now, "free-2": now, "held": later, "workers": never}
	var hosts []infrav1.Host
	add := func(name, domain string) {
		h := infrav1.Host{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": "rack-of-" + name}}}
		h.Spec.FailureDomain = domain
		hosts = append(hosts, h)
	}
	domain := func(name string, controlPlane *bool) clusterv1.FailureDomain {
		return clusterv1.FailureDomain{Name: name, ControlPlane: controlPlane}
	}
	yes, no := ptr.To(true), ptr.To(false)
	for name, tc := range map[string]struct {
		hosts map[string]string
		spec  infrav1.HostClusterSpec
		want  []clusterv1.FailureDomain
	}{
		"no hosts":            {},
		"hosts in no domain":  {hosts: map[string]string{"free": ""}},
		"sorted":              {hosts: map[string]string{"free": "b", "free-2": "a"}, want: []clusterv1.FailureDomain{domain("a", yes), domain("b", yes)}},
		"the best of each":    {hosts: map[string]string{"free": "a", "held": "a", "workers": "b"}, want: []clusterv1.FailureDomain{domain("a", yes), domain("b", no)}},
		"one is free":         {hosts: map[string]string{"free": "a", "held": "b", "workers": "c"}, want: []clusterv1.FailureDomain{domain("a", yes), domain("b", no), domain("c", no)}},
		"none is free":        {hosts: map[string]string{"held": "b", "workers": "c"}, want: []clusterv1.FailureDomain{domain("b", yes), domain("c", no)}},
		"all are for workers": {hosts: map[string]string{"workers": "c"}, want: []clusterv1.FailureDomain{domain("c", no)}},
		"by a label": {
			hosts: map[string]string{"free": "", "held": ""}, spec: infrav1.HostClusterSpec{FailureDomainLabel: "rack"},
			want: []clusterv1.FailureDomain{domain("rack-of-free", yes), domain("rack-of-held", no)},
		},
		"as the spec says": {
			hosts: map[string]string{"free": "a", "held": "b", "workers": "c", "free-2": "unlisted"},
			spec:  infrav1.HostClusterSpec{FailureDomains: []clusterv1.FailureDomain{domain("c", yes), domain("b", nil), domain("a", no)}},
			want:  []clusterv1.FailureDomain{domain("a", no), domain("b", yes), domain("c", yes)},
		},
		"the spec changes no other domain": {
			hosts: map[string]string{"free": "a", "held": "b"},
			spec:  infrav1.HostClusterSpec{FailureDomains: []clusterv1.FailureDomain{domain("a", yes), domain("b", nil)}},
			want:  []clusterv1.FailureDomain{domain("a", yes), domain("b", no)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			hosts = nil
			for host, of := range tc.hosts {
				add(host, of)
			}
			before := tc.spec.DeepCopy()
			got := failureDomains(tc.spec, hosts, func(h *infrav1.Host) standing { return worth[h.Name] })
			if !equality.Semantic.DeepEqual(got, tc.want) {
				t.Errorf("domains %+v, want %+v", got, tc.want)
			}
			if !equality.Semantic.DeepEqual(*before, tc.spec) {
				t.Errorf("the spec was changed: %+v", tc.spec.FailureDomains)
			}
		})
	}
}

// At most as many domains as the contract allows are published, the first by name.
func TestDomainsAreCapped(t *testing.T) {
	var objects []client.Object
	for i := range maxFailureDomains + 3 {
		objects = append(objects, aHost(func(h *infrav1.Host) {
			h.Name, h.Spec.FailureDomain = fmt.Sprintf("host-%03d", i), fmt.Sprintf("rack-%03d", i)
		}))
	}
	objects = append(objects, aHost(func(h *infrav1.Host) { h.Namespace, h.Spec.FailureDomain = "other", "a-rack" }))
	s := controlPlaneScope()
	s.cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
	s.hostCluster.Namespace = "ns"
	if err := (&Reconciler{Client: store(t, objects...)}).collectFailureDomains(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	domains := s.hostCluster.Status.FailureDomains
	if len(domains) != maxFailureDomains || domains[0].Name != "rack-000" || domains[maxFailureDomains-1].Name != "rack-099" || len(s.hosts) != maxFailureDomains+3 {
		t.Errorf("%d domains from %s to %s, of %d hosts", len(domains), domains[0].Name, domains[len(domains)-1].Name, len(s.hosts))
	}
	s.hostCluster.Namespace = "other"
	if err := (&Reconciler{Client: store(t, objects...)}).collectFailureDomains(t.Context(), s); err != nil || len(s.hostCluster.Status.FailureDomains) != 1 {
		t.Errorf("error %v, domains %v", err, s.hostCluster.Status.FailureDomains)
	}
	for _, broken := range []client.Client{without[*infrav1.HostList](store(t)), without[*infrav1.HostMachineList](store(t, machineTemplate(nil)))} {
		r := &Reconciler{Client: broken, APIReader: store(t, kubeadmControlPlane())}
		s := controlPlaneScope()
		s.hostCluster.Status.FailureDomains = domains
		if err := r.collectFailureDomains(t.Context(), s); err == nil || len(s.hostCluster.Status.FailureDomains) != maxFailureDomains {
			t.Errorf("error %v, %d domains are kept", err, len(s.hostCluster.Status.FailureDomains))
		}
	}
}
