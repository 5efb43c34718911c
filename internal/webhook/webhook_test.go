package webhook_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/api/v1beta1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

func selector(value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"disk": value}}
}

func placed(value string) infrav1.HostMachineTemplateResourceSpec {
	return infrav1.HostMachineTemplateResourceSpec{Placement: infrav1.Placement{HostSelector: selector(value)}}
}

func pooled(value string) infrav1.HostMachinePoolTemplateResourceSpec {
	return infrav1.HostMachinePoolTemplateResourceSpec{HostMachineTemplateResourceSpec: placed(value)}
}

func sized(name corev1.ResourceName, quantity string) infrav1.HostMachineSpec {
	return infrav1.HostMachineSpec{Placement: infrav1.Placement{MinCapacity: corev1.ResourceList{name: resource.MustParse(quantity)}}}
}

func TestCreate(t *testing.T) {
	endpoint := func(host string, kind infrav1.EndpointType) infrav1.HostClusterSpec {
		return infrav1.HostClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: host}, Endpoint: infrav1.EndpointSpec{Type: kind}}
	}
	at := func(port int32, kind infrav1.EndpointType) infrav1.HostClusterSpec {
		spec := endpoint("10.0.0.1", kind)
		spec.ControlPlaneEndpoint.Port = port
		return spec
	}
	labelled := func(keys ...infrav1.HostLabelKey) *infrav1.HostMachinePool {
		pool := &infrav1.HostMachinePool{}
		pool.Spec.NodeLabels = keys
		return pool
	}
	preferred := infrav1.Placement{Preferred: []infrav1.PreferredHosts{{Weight: 1, HostSelector: selector("not a value")}}}
	for name, tc := range map[string]struct {
		object client.Object
		want   string
	}{
		"HostCluster":                     {&infrav1.HostCluster{Spec: endpoint("10.0.0.1", "")}, ""},
		"HostCluster without endpoint":    {&infrav1.HostCluster{}, ""},
		"HostCluster, name held by hosts": {&infrav1.HostCluster{Spec: endpoint("api.example", infrav1.EndpointHostVIP)}, "must be an IP address with endpoint type HostVIP"},
		"HostCluster, type unset":         {&infrav1.HostCluster{Spec: endpoint("api.example", "")}, "must be an IP address"},
		"HostCluster, external name":      {&infrav1.HostCluster{Spec: endpoint("api.example", infrav1.EndpointExternal)}, ""},
		"HostClusterTemplate, name":       {&infrav1.HostClusterTemplate{Spec: infrav1.HostClusterTemplateSpec{Template: infrav1.HostClusterTemplateResource{Spec: endpoint("api.example", "")}}}, "spec.template.spec.controlPlaneEndpoint.host"},
		"HostCluster, port of a kubelet":  {&infrav1.HostCluster{Spec: at(10250, "")}, "spec.controlPlaneEndpoint.port: Invalid value: 10250: the kubelet of each control-plane host listens at 10250"},
		"HostCluster, port of etcd alone": {&infrav1.HostCluster{Spec: infrav1.HostClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Port: 2379}}}, "etcd of each control-plane host"},
		"HostCluster, external port":      {&infrav1.HostCluster{Spec: at(10250, infrav1.EndpointExternal)}, ""},
		"HostCluster, another port":       {&infrav1.HostCluster{Spec: at(8443, "")}, ""},
		"HostClusterTemplate, port of a controller manager": {&infrav1.HostClusterTemplate{Spec: infrav1.HostClusterTemplateSpec{Template: infrav1.HostClusterTemplateResource{Spec: at(10257, "")}}},
			"spec.template.spec.controlPlaneEndpoint.port: Invalid value: 10257: kube-controller-manager of each"},
		"HostMachine":                 {&infrav1.HostMachine{Spec: infrav1.HostMachineSpec{Placement: infrav1.Placement{HostSelector: selector("ssd")}}}, ""},
		"HostMachine, bad selector":   {&infrav1.HostMachine{Spec: infrav1.HostMachineSpec{Placement: infrav1.Placement{HostSelector: selector("not a value")}}}, "spec.hostSelector.matchLabels"},
		"HostMachine, bad preference": {&infrav1.HostMachine{Spec: infrav1.HostMachineSpec{Placement: preferred}}, "spec.preferred[0].hostSelector"},
		"HostMachine, size":           {&infrav1.HostMachine{Spec: sized("cpu", "8")}, ""},
		"HostMachine, no size":        {&infrav1.HostMachine{Spec: sized("memory", "0")}, "spec.minCapacity[memory]: Invalid value: \"0\": must be more than 0"},
		"HostMachine, size of what no host tells": {&infrav1.HostMachine{Spec: sized("nvidia.com/gpu", "1")},
			"spec.minCapacity: Invalid value: only cpu, memory and ephemeral-storage are known of a host; select other hardware by spec.hostSelector"},
		"HostMachinePool, labels of Nodes": {labelled("rack", "hardware.infrastructure.slipway.dev/gpu-nvidia", "node.kubernetes.io/instance-type", "mykubernetes.io/x"), ""},
		"HostMachinePool, a label twice":   {labelled("rack", "rack"), "spec.nodeLabels[1]: Duplicate value"},
		"HostMachinePool, no key":          {labelled("rack", "not a key"), "spec.nodeLabels[1]: Invalid value"},
		"HostMachineTemplate, label that NodeRestriction refuses": {&infrav1.HostMachineTemplate{Spec: infrav1.HostMachineTemplateSpec{Template: infrav1.HostMachineTemplateResource{
			Spec: labelled("rack", "node-restriction.kubernetes.io/tenant").Spec.HostMachineTemplateResourceSpec}}},
			"spec.template.spec.nodeLabels[1]: Invalid value: \"node-restriction.kubernetes.io/tenant\": a kubelet gives its Node no such label"},
		"HostMachinePool, role of a Node":       {labelled("node-role.kubernetes.io/gpu"), "spec.nodeLabels[0]: Invalid value"},
		"HostMachinePool, label of the Machine": {labelled("node.cluster.x-k8s.io/gpu"), "spec.nodeLabels[0]: Invalid value"},
		"HostMachinePool, zone":                 {labelled("topology.kubernetes.io/zone"), "come from the Host by themselves"},
		"HostMachinePool, name of the host":     {labelled("kubernetes.io/hostname"), "spec.nodeLabels[0]: Invalid value"},
		"HostMachinePool, label of Kubernetes":  {labelled("scheduling.k8s.io/x"), "spec.nodeLabels[0]: Invalid value"},
		"HostMachine, adoption beside a size": {adopting(func(m *infrav1.HostMachine) { m.Spec.Placement = sized("cpu", "8").Placement }),
			"spec.minCapacity: Forbidden: must not be set with spec.adopt"},
		"HostMachineTemplate, bad selector": {&infrav1.HostMachineTemplate{Spec: infrav1.HostMachineTemplateSpec{Template: infrav1.HostMachineTemplateResource{Spec: placed("not a value")}}}, "spec.template.spec.hostSelector"},
		"HostMachinePool, bad selector":     {&infrav1.HostMachinePool{Spec: infrav1.HostMachinePoolSpec{HostMachinePoolTemplateResourceSpec: pooled("not a value")}}, "spec.hostSelector"},
		"HostMachinePoolTemplate, bad selector": {&infrav1.HostMachinePoolTemplate{Spec: infrav1.HostMachinePoolTemplateSpec{
			Template: infrav1.HostMachinePoolTemplateResource{Spec: pooled("not a value")}}}, "spec.template.spec.hostSelector"},
		"HostMachine, adoption":            {adopting(nil), ""},
		"HostMachine, adoption of no host": {adopting(func(m *infrav1.HostMachine) { m.Spec.Adopt.HostName = strings.Repeat("x", 254) }), "spec.adopt.hostName"},
		"HostMachine, adoption beside a selector": {adopting(func(m *infrav1.HostMachine) { m.Spec.HostSelector = selector("ssd") }),
			"spec.hostSelector: Forbidden: must not be set with spec.adopt"},
		"HostMachine, adoption beside a name": {adopting(func(m *infrav1.HostMachine) { m.Spec.HostName = "h" }), "spec.hostName: Forbidden"},
		"HostMachine, adoption by a member of a pool": {adopting(func(m *infrav1.HostMachine) {
			m.Labels = map[string]string{clusterv1.MachinePoolNameLabel: "p"}
		}), "spec.adopt: Forbidden: a member of a pool"},
		"HostMachine, adoption by an owned member": {adopting(func(m *infrav1.HostMachine) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.String(), Kind: "HostMachinePool", Name: "p", UID: "u"}}
		}), "adopt the node by a Machine of its own"},
		"HostMachine, adoption of a control plane": {adopting(func(m *infrav1.HostMachine) {
			m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
		}), "spec.adopt: Forbidden: only workers"},
		"HostMachine, unknown operator": {&infrav1.HostMachine{Spec: infrav1.HostMachineSpec{Placement: infrav1.Placement{HostSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "disk", Operator: "Near"}}}}}}, "not a valid selector operator"},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Skip(t)
			tc.object.SetNamespace(env.Namespace(t))
			tc.object.SetName("x")
			expect(t, env.Client.Create(ctx, tc.object), tc.want)
		})
	}
}

// adopting is a machine that asks for a live node.
func adopting(change func(*infrav1.HostMachine)) *infrav1.HostMachine {
	m := &infrav1.HostMachine{Spec: infrav1.HostMachineSpec{Adopt: infrav1.Adoption{HostName: "h"}}}
	if change != nil {
		change(m)
	}
	return m
}

// What is made from a template may be made twice, and no host can be adopted twice: the
// templates do not have the field. Whoever writes it is told so by its name.
func TestTemplatesCannotAdopt(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	for kind, path := range map[string][]string{
		"HostMachineTemplate": {"spec", "template", "spec", "adopt"}, "HostMachinePoolTemplate": {"spec", "template", "spec", "adopt"}, "HostMachinePool": {"spec", "adopt"},
	} {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(infrav1.GroupVersion.WithKind(kind))
		o.SetNamespace(namespace)
		o.SetName("x")
		if err := unstructured.SetNestedMap(o.Object, map[string]any{"hostName": "h"}, path...); err != nil {
			t.Fatal(err)
		}
		expect(t, env.Client.Create(ctx, o, client.FieldValidation(metav1.FieldValidationStrict)),
			`unknown field "`+strings.Join(path, ".")+`"`)
	}
}

func expect(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("err = %v, want %q", err, want)
	}
}

// templates are one of each kind, with the change that a rotation would make.
func templates() map[string]struct {
	object client.Object
	change map[string]any
} {
	change := map[string]any{"hostSelector": map[string]any{"matchLabels": map[string]any{"disk": "hdd"}}}
	return map[string]struct {
		object client.Object
		change map[string]any
	}{
		"HostMachineTemplate": {&infrav1.HostMachineTemplate{Spec: infrav1.HostMachineTemplateSpec{
			Template: infrav1.HostMachineTemplateResource{Spec: placed("ssd")}}}, change},
		"HostMachinePoolTemplate": {&infrav1.HostMachinePoolTemplate{Spec: infrav1.HostMachinePoolTemplateSpec{
			Template: infrav1.HostMachinePoolTemplateResource{Spec: pooled("ssd")}}}, change},
		"HostClusterTemplate": {&infrav1.HostClusterTemplate{Spec: infrav1.HostClusterTemplateSpec{
			Template: infrav1.HostClusterTemplateResource{Spec: infrav1.HostClusterSpec{
				ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "10.0.0.1", Port: 6443}, FailureDomainLabel: "rack"}}}},
			map[string]any{"controlPlaneEndpoint": map[string]any{"host": "10.0.0.2"}, "failureDomainLabel": "row"}},
	}
}

// Only the topology controller's dry run by server-side apply may change a
// template.
func TestTemplatesAreImmutable(t *testing.T) {
	for name, tc := range templates() {
		for caseName, c := range map[string]struct {
			dryRun, annotated bool
			want              string
		}{
			"change":                       {want: "make a template with another name"},
			"annotated change":             {annotated: true, want: "make a template with another name"},
			"dry run of a user":            {dryRun: true, want: "make a template with another name"},
			"dry run of topology's change": {dryRun: true, annotated: true},
		} {
			t.Run(name+"/"+caseName, func(t *testing.T) {
				testenv.Skip(t)
				object := tc.object.DeepCopyObject().(client.Object)
				object.SetNamespace(env.Namespace(t))
				object.SetName("x")
				if err := env.Client.Create(ctx, object); err != nil {
					t.Fatal(err)
				}
				apply := &unstructured.Unstructured{Object: map[string]any{
					"spec": map[string]any{"template": map[string]any{"spec": runtime.DeepCopyJSON(tc.change)}},
				}}
				apply.SetGroupVersionKind(infrav1.GroupVersion.WithKind(name))
				apply.SetNamespace(object.GetNamespace())
				apply.SetName("x")
				if c.annotated {
					apply.SetAnnotations(map[string]string{clusterv1.TopologyDryRunAnnotation: ""})
				}
				options := []client.ApplyOption{client.FieldOwner("capi-topology"), client.ForceOwnership}
				if c.dryRun {
					options = append(options, client.DryRunAll)
				}
				expect(t, env.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(apply), options...), c.want)
			})
		}
	}
}

func TestTemplateMetadataMayChange(t *testing.T) {
	testenv.Skip(t)
	template := templates()["HostMachineTemplate"].object.(*infrav1.HostMachineTemplate)
	template.Namespace, template.Name = env.Namespace(t), "x"
	if err := env.Client.Create(ctx, template); err != nil {
		t.Fatal(err)
	}
	template.Labels = map[string]string{"a": "b"}
	template.Spec.Template.ObjectMeta.Labels = map[string]string{"c": "d"}
	expect(t, env.Client.Update(ctx, template), "")
}

// What a claim rests on can't be changed, even by dropping the whole spec.
func TestClaimRules(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	machine := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"}}
	machine.Spec.ClaimID, machine.Spec.ProviderID = "c1", "slipway://ns/h/c1"
	machine.Spec.Adopt.HostName = "h"
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "h"}}
	h.Spec = infrav1.HostSpec{HostID: "id", ClaimGeneration: 3, Claim: &infrav1.HostClaim{MachineName: "m", ClusterName: "c", ClaimID: "c1"}}
	for _, o := range []client.Object{machine, h} {
		if err := env.Client.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		object client.Object
		want   string
	}{
		"claimID":             {with(machine, func(m *infrav1.HostMachine) { m.Spec.ClaimID = "c2" }), "spec.claimID"},
		"providerID":          {with(machine, func(m *infrav1.HostMachine) { m.Spec.ProviderID = "" }), "spec.providerID"},
		"machine spec":        {with(machine, func(m *infrav1.HostMachine) { m.Spec = infrav1.HostMachineSpec{} }), "spec.claimID"},
		"adoption":            {with(machine, func(m *infrav1.HostMachine) { m.Spec.Adopt.HostName = "h2" }), "spec.adopt cannot change"},
		"adoption gone":       {with(machine, func(m *infrav1.HostMachine) { m.Spec.Adopt = infrav1.Adoption{} }), "spec.adopt cannot change"},
		"adoption in v1beta1": {&v1beta1.HostMachine{ObjectMeta: machine.ObjectMeta, Spec: with(machine, func(m *infrav1.HostMachine) { m.Spec.Adopt.HostName = "h2" }).Spec}, "spec.adopt cannot change"},
		"machine labels":      {with(machine, func(m *infrav1.HostMachine) { m.Labels = map[string]string{"a": "b"} }), ""},
		"hostID":              {with(h, func(h *infrav1.Host) { h.Spec.HostID = "other" }), "spec.hostID"},
		"host spec":           {with(h, func(h *infrav1.Host) { h.Spec = infrav1.HostSpec{} }), "spec.hostID"},
		"claimGeneration":     {with(h, func(h *infrav1.Host) { h.Spec.ClaimGeneration = 2 }), "only grows"},
		"stolen claim":        {with(h, func(h *infrav1.Host) { h.Spec.Claim.ClaimID = "c2" }), "cannot pass from one machine to another"},
		"cleared claim":       {with(h, func(h *infrav1.Host) { h.Spec.Claim = nil }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, env.Client.Update(ctx, tc.object, client.DryRunAll), tc.want)
		})
	}
}

func with[T interface{ DeepCopyObject() runtime.Object }](o T, change func(T)) T {
	changed, ok := o.DeepCopyObject().(T)
	if !ok {
		panic("DeepCopyObject returns another type")
	}
	change(changed)
	return changed
}

// A template whose last field is taken away again stays a template: the topology
// controller applies it without the field, and owns nothing else below spec.
func TestTemplateMayBecomeEmpty(t *testing.T) {
	for name, tc := range templates() {
		t.Run(name, func(t *testing.T) {
			testenv.Skip(t)
			namespace := env.Namespace(t)
			apply := func(spec map[string]any, options ...client.ApplyOption) error {
				object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
				object.SetGroupVersionKind(infrav1.GroupVersion.WithKind(name))
				object.SetNamespace(namespace)
				object.SetName("x")
				object.SetAnnotations(map[string]string{clusterv1.TopologyDryRunAnnotation: ""})
				return env.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), append(options, client.FieldOwner("capi-topology"), client.ForceOwnership)...)
			}
			if err := apply(map[string]any{"template": map[string]any{"spec": runtime.DeepCopyJSON(tc.change)}}); err != nil {
				t.Fatal(err)
			}
			for _, empty := range []map[string]any{{"template": map[string]any{}}, {"template": map[string]any{"spec": map[string]any{}}}} {
				if err := apply(empty, client.DryRunAll); err != nil {
					t.Errorf("with spec %v: %v", empty, err)
				}
			}
		})
	}
}
