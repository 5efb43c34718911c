package placement_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/placement"
)

// otherPlane is a control plane of another provider, in contract v1beta1.
var otherPlane = schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1alpha7", Kind: "OtherControlPlane"}

// planeWorld is a Cluster with a control plane.
type planeWorld struct {
	cluster  *clusterv1.Cluster
	plane    *unstructured.Unstructured
	template *infrav1.HostMachineTemplate
	machines []client.Object
	denied   bool
}

func newPlaneWorld() *planeWorld {
	w := &planeWorld{cluster: &clusterv1.Cluster{ObjectMeta: meta("c")}, template: &infrav1.HostMachineTemplate{ObjectMeta: meta("plane")}}
	w.cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "plane"}
	w.template.Spec.Template.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": "template"}}
	w.plane = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane", "metadata": map[string]any{"namespace": namespace, "name": "plane"},
		"spec": map[string]any{"version": "v1.36.3", "machineTemplate": map[string]any{"spec": map[string]any{"infrastructureRef": map[string]any{
			"apiGroup": infrav1.GroupVersion.Group, "kind": "HostMachineTemplate", "name": "plane",
		}}}},
	}}
	return w
}

// replicas are those of the control plane.
func (w *planeWorld) replicas(n int64) {
	_ = unstructured.SetNestedField(w.plane.Object, n, "spec", "replicas")
}

// wants is what Cluster API says of the control plane in the status of the Cluster.
func (w *planeWorld) wants(n int32) {
	w.cluster.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{DesiredReplicas: ptr.To(n)}
}

// infrastructure is the kind that the control plane makes its machines from.
func (w *planeWorld) infrastructure(kind string) {
	_ = unstructured.SetNestedField(w.plane.Object, kind, "spec", "machineTemplate", "spec", "infrastructureRef", "kind")
}

// other makes the control plane that of another provider.
func (w *planeWorld) other() {
	replicas, _, _ := unstructured.NestedInt64(w.plane.Object, "spec", "replicas")
	w.plane.SetGroupVersionKind(otherPlane)
	w.plane.Object["spec"] = map[string]any{"version": "v1.36.3", "replicas": replicas, "machineTemplate": map[string]any{"infrastructureRef": map[string]any{
		"apiVersion": "infrastructure.slipway.dev/v1beta1", "kind": "HostMachineTemplate", "name": "plane", "namespace": namespace,
	}}}
	w.cluster.Spec.ControlPlaneRef.Kind = otherPlane.Kind
}

// machine is one of the control plane; a host is named by its providerID.
func (w *planeWorld) machine(host string, change ...func(*clusterv1.Machine, *infrav1.HostMachine)) {
	name := fmt.Sprintf("plane-%d", len(w.machines)/2)
	machine, m := &clusterv1.Machine{ObjectMeta: meta(name)}, &infrav1.HostMachine{ObjectMeta: meta(name)}
	machine.Labels = map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.MachineControlPlaneLabel: ""}
	machine.Spec.ClusterName, machine.Spec.Version = "c", "v1.35.4"
	machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachine", Name: name}
	m.Labels = machine.Labels
	m.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": name}}
	if host != "" {
		m.Spec.ProviderID = infrav1.ProviderID(namespace, host, "claim")
	}
	machine.CreationTimestamp = metav1.Unix(int64(len(w.machines)), 0)
	for _, c := range change {
		c(machine, m)
	}
	w.machines = append(w.machines, machine, m)
}

func (w *planeWorld) reader(t *testing.T) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	mapper := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{otherPlane.GroupVersion()})
	mapper.Add(otherPlane, apimeta.RESTScopeNamespace)
	objects := append([]client.Object{w.cluster, w.plane, w.template}, w.machines...)
	return fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, plane := o.(*unstructured.Unstructured); plane && w.denied {
				return apierrors.NewForbidden(schema.GroupResource{}, key.Name, nil)
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
}

func going(o client.Object) {
	o.SetFinalizers([]string{"example.com/hold"})
	o.SetDeletionTimestamp(ptr.To(metav1.Now()))
}

// Who comes first is what the control plane lacks of its replicas. Nobody waits for machines that
// nobody makes.
func TestAhead(t *testing.T) {
	const fromTemplate = "template v1.36.3"
	for name, tc := range map[string]struct {
		world func(*planeWorld)
		want  []string
	}{
		"no machine yet": {func(w *planeWorld) { w.replicas(3) }, []string{fromTemplate, fromTemplate, fromTemplate}},
		"whole":          {func(w *planeWorld) { w.replicas(1); w.machine("h") }, nil},
		"from 1 to 3":    {func(w *planeWorld) { w.replicas(3); w.machine("h") }, []string{fromTemplate, fromTemplate}},
		"one waits, one is to come": {func(w *planeWorld) { w.replicas(3); w.machine("h"); w.machine("") },
			[]string{"plane-1 v1.35.4", fromTemplate}},
		"from 3 to 1": {func(w *planeWorld) { w.replicas(1); w.machine("h"); w.machine("h"); w.machine("h") }, nil},
		"a surge that waits": {func(w *planeWorld) { w.replicas(2); w.machine("h"); w.machine("h"); w.machine("") },
			[]string{"plane-2 v1.35.4"}},
		"a surge that has a host": {func(w *planeWorld) { w.replicas(2); w.machine("h"); w.machine("h"); w.machine("h") }, nil},
		"one goes before another comes": {func(w *planeWorld) {
			w.replicas(2)
			w.machine("h")
			w.machine("h", func(m *clusterv1.Machine, _ *infrav1.HostMachine) { going(m) })
		}, []string{fromTemplate}},
		"one goes that waits": {func(w *planeWorld) {
			w.replicas(1)
			w.machine("h")
			w.machine("", func(m *clusterv1.Machine, _ *infrav1.HostMachine) { going(m) })
		}, nil},
		"one waits in its failure domain": {func(w *planeWorld) {
			w.cluster.Status.FailureDomains = []clusterv1.FailureDomain{{Name: "a", ControlPlane: ptr.To(true)}, {Name: "b", ControlPlane: ptr.To(true)}, {Name: "w", ControlPlane: ptr.To(false)}}
			w.replicas(2)
			w.machine("", func(m *clusterv1.Machine, _ *infrav1.HostMachine) { m.Spec.FailureDomain = "b" })
		}, []string{"plane-0 v1.35.4 [b]", "template v1.36.3 [a b]"}},
		"the provider is paused": {func(w *planeWorld) {
			w.replicas(3)
			w.machine("")
			w.plane.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
		}, []string{"plane-0 v1.35.4"}},
		"a machine is paused": {func(w *planeWorld) {
			w.replicas(1)
			w.machine("", func(_ *clusterv1.Machine, m *infrav1.HostMachine) {
				m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			})
		}, nil},
		"a machine adopts a Node": {func(w *planeWorld) {
			w.replicas(1)
			w.machine("", func(_ *clusterv1.Machine, m *infrav1.HostMachine) { m.Spec.Adopt.HostName = "h" })
		}, nil},
		"it is being deleted":          {func(w *planeWorld) { w.replicas(3); w.machine(""); going(w.plane) }, nil},
		"the Cluster is being deleted": {func(w *planeWorld) { w.replicas(3); w.machine(""); going(w.cluster) }, nil},
		"the Cluster opts out": {func(w *planeWorld) {
			w.replicas(3)
			w.cluster.Annotations = map[string]string{infrav1.ControlPlaneFirstAnnotation: "false"}
		}, nil},
		"not there yet":                 {func(w *planeWorld) { w.plane.SetName("another") }, nil},
		"its template is not there yet": {func(w *planeWorld) { w.replicas(3); w.template.Name = "another" }, nil},
		"other infrastructure":          {func(w *planeWorld) { w.replicas(3); w.infrastructure("DockerMachineTemplate") }, nil},
		"no machines at all": {func(w *planeWorld) {
			w.replicas(3)
			unstructured.RemoveNestedField(w.plane.Object, "spec", "machineTemplate")
		}, nil},
		"no replicas":                      {func(*planeWorld) {}, nil},
		"more than anybody has":            {func(w *planeWorld) { w.replicas(1 << 40) }, slices.Repeat([]string{fromTemplate}, 9)},
		"another provider":                 {func(w *planeWorld) { w.replicas(3); w.machine("h"); w.machine(""); w.other() }, []string{"plane-1 v1.35.4", fromTemplate}},
		"a provider that nobody knows":     {func(w *planeWorld) { w.replicas(3); w.machine(""); w.cluster.Spec.ControlPlaneRef.Kind = "Unknown" }, []string{"plane-0 v1.35.4"}},
		"a provider that must not be read": {func(w *planeWorld) { w.replicas(3); w.machine(""); w.denied = true }, []string{"plane-0 v1.35.4"}},
		"a provider that nobody knows, of whose machines one is to come": {func(w *planeWorld) {
			w.wants(3)
			w.machine("h")
			w.machine("")
			w.cluster.Spec.ControlPlaneRef.Kind = "Unknown"
		}, []string{"plane-1 v1.35.4", "plane-1 v1.35.4"}},
		"a provider that must not be read, of whose machines two are to come": {func(w *planeWorld) { w.wants(3); w.machine("h"); w.denied = true },
			[]string{"plane-0 v1.35.4", "plane-0 v1.35.4"}},
		"a provider that must not be read, whole":             {func(w *planeWorld) { w.wants(1); w.machine("h"); w.denied = true }, nil},
		"a provider that must not be read, without a machine": {func(w *planeWorld) { w.wants(3); w.denied = true }, nil},
		"a provider that must not be read, on other infrastructure": {func(w *planeWorld) {
			w.wants(3)
			w.machine("h", func(m *clusterv1.Machine, _ *infrav1.HostMachine) { m.Spec.InfrastructureRef.Kind = "DockerMachine" })
			w.denied = true
		}, nil},
		"a provider that is read goes before what the Cluster says": {func(w *planeWorld) { w.wants(3); w.replicas(1); w.machine("h") }, nil},
		"machines without a provider": {func(w *planeWorld) {
			w.machine("")
			w.cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
		}, []string{"plane-0 v1.35.4"}},
		"machines of another Cluster": {func(w *planeWorld) {
			w.replicas(1)
			w.machine("", func(m *clusterv1.Machine, _ *infrav1.HostMachine) { m.Labels[clusterv1.ClusterNameLabel] = "other" })
		}, []string{fromTemplate}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPlaneWorld()
			tc.world(w)
			ahead, err := placement.Ahead(t.Context(), w.reader(t), w.cluster)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, request := range ahead {
				of := request.Placement.HostSelector.MatchLabels["of"] + " " + request.Version
				if len(request.FailureDomains) > 0 {
					of += fmt.Sprint(" ", request.FailureDomains)
				}
				got = append(got, of)
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("ahead are %q, want %q", got, tc.want)
			}
		})
	}
}
