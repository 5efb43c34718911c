package provider

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/templates"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// className is the ClusterClass in templates/local.
const className = "slipway-local"

// newTopology makes a Cluster of the ClusterClass of local hosts, and waits until core's
// topology controller has made everything.
func newTopology(t *testing.T, s *Suite) *fixture {
	t.Helper()
	data, err := templates.Local.ReadFile("local/clusterclass.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return newTopologyOf(t, s, className, data, 1)
}

// newTopologyOf does so for any ClusterClass that has both classes of workers.
func newTopologyOf(t *testing.T, s *Suite, class string, data []byte, controlPlanes int32, variables ...clusterv1.ClusterVariable) *fixture {
	t.Helper()
	f := &fixture{t: t, Suite: s, namespace: s.namespaceFor(t)}
	text := strings.ReplaceAll(string(data), infrav1.GroupVersion.String(), group+"/"+string(s.Contract))
	objects, err := judge.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		object.SetNamespace(f.namespace)
		f.create(object)
	}
	f.cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: clusterName}}
	f.cluster.Spec.Topology = clusterv1.Topology{
		ClassRef: clusterv1.ClusterClassRef{Name: class}, Version: version,
		ControlPlane: clusterv1.ControlPlaneTopology{Replicas: ptr.To(controlPlanes)},
		Workers: clusterv1.WorkersTopology{
			MachinePools:       []clusterv1.MachinePoolTopology{{Class: "default-worker", Name: "pool", Replicas: ptr.To(int32(1))}},
			MachineDeployments: []clusterv1.MachineDeploymentTopology{{Class: "default-worker", Name: "md", Replicas: ptr.To(int32(0))}},
		},
		Variables: append(variables, variable("controlPlaneEndpointHost", `"10.88.0.200"`)),
	}
	f.create(f.cluster)
	f.giveKubeconfig()
	f.awaitTopology()
	return f
}

func variable(name, json string) clusterv1.ClusterVariable {
	v := clusterv1.ClusterVariable{Name: name}
	v.Value.Raw = []byte(json)
	return v
}

func (f *fixture) awaitTopology() {
	f.t.Helper()
	testenv.Object(f.t, f.Client, f.cluster, "the topology is reconciled", func(c *clusterv1.Cluster) string {
		condition := conditions.Get(c, clusterv1.ClusterTopologyReconciledCondition)
		return unless(condition != nil && condition.Status == metav1.ConditionTrue && condition.ObservedGeneration == c.Generation, "%v", condition)
	})
}

// generations of everything the topology controller made, by kind and name.
func (f *fixture) generations() map[string]int64 {
	f.t.Helper()
	found := map[string]int64{}
	for _, gvk := range []metav1.GroupVersionKind{
		{Group: group, Version: string(f.Contract), Kind: "HostCluster"},
		{Group: group, Version: string(f.Contract), Kind: "HostMachinePool"},
		{Group: group, Version: string(f.Contract), Kind: "HostMachineTemplate"},
		{Group: clusterv1.GroupVersion.Group, Version: clusterv1.GroupVersion.Version, Kind: "MachinePool"},
		{Group: clusterv1.GroupVersion.Group, Version: clusterv1.GroupVersion.Version, Kind: "MachineDeployment"},
		{Group: controlplanev1.GroupVersion.Group, Version: controlplanev1.GroupVersion.Version, Kind: "KubeadmControlPlane"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(gvk.Group + "/" + gvk.Version)
		list.SetKind(gvk.Kind + "List")
		f.list(list, client.HasLabels{clusterv1.ClusterTopologyOwnedLabel})
		for _, item := range list.Items {
			found[gvk.Kind+" "+item.GetName()] = item.GetGeneration()
		}
	}
	return found
}

// poolsPublished says whether the provider has written the spec of its pools.
func (f *fixture) poolsPublished() error {
	f.t.Helper()
	pools := &unstructured.UnstructuredList{}
	pools.SetAPIVersion(group + "/" + string(f.Contract))
	pools.SetKind("HostMachinePoolList")
	f.list(pools)
	for _, pool := range pools.Items {
		if id, _, _ := unstructured.NestedString(pool.Object, "spec", "providerID"); id == "" {
			return fmt.Errorf("%s has no providerID yet", pool.GetName())
		}
	}
	return nil
}

// reconcileAgain makes the topology controller look again, some times.
func (f *fixture) reconcileAgain() {
	f.t.Helper()
	for i := range 3 {
		change(f.t, f.Suite, f.cluster, func(c *clusterv1.Cluster) { c.Annotations = map[string]string{"example.com/again": fmt.Sprint(i)} })
		f.passTime(f.t)
		f.awaitTopology()
	}
}

// Templates support the dry run of the topology controller: a topology at rest is
// changed in nothing, and a change of the class rotates a template exactly once.
func ssaDryRun(t *testing.T, s *Suite) {
	f := newTopology(t, s)
	poll.Until(t, "the objects of the topology are complete", func() error {
		if kinds := f.kindsMade(); !slices.Equal(kinds, []string{
			"HostCluster", "HostMachinePool", "HostMachineTemplate", "KubeadmControlPlane", "MachineDeployment", "MachinePool",
		}) {
			return fmt.Errorf("%v", kinds)
		}
		return f.poolsPublished()
	})
	f.passTime(t)
	before := f.generations()
	f.reconcileAgain()
	if after := f.generations(); !maps.Equal(before, after) {
		t.Errorf("a topology at rest changed:\n%v\n%v", before, after)
	}

	templatesBefore := f.clonedTemplates()
	for _, template := range []struct{ kind, name, renamed string }{
		{"HostMachineTemplate", className + "-control-plane", "control-plane-2"},
		{"HostMachinePoolTemplate", className + "-worker", "worker-2"},
	} {
		f.create(f.copyTemplate(template.kind, template.name, template.renamed))
	}
	class := &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: className}}
	change(t, s, class, func(c *clusterv1.ClusterClass) {
		c.Spec.ControlPlane.MachineInfrastructure.TemplateRef.Name = "control-plane-2"
		c.Spec.Workers.MachinePools[0].Infrastructure.TemplateRef.Name = "worker-2"
	})
	// by its name: the topology controller deletes the former one in the same reconcile
	poll.Until(t, "the template of the control plane is rotated", func() error {
		now := f.clonedTemplates()
		if !slices.ContainsFunc(now, func(name string) bool { return !slices.Contains(templatesBefore, name) }) {
			return fmt.Errorf("templates %v", now)
		}
		return nil
	})
	poll.Until(t, "the pool follows its class", func() error {
		list := &infrav1.HostMachinePoolList{}
		f.list(list)
		if len(list.Items) != 1 || list.Items[0].Spec.ResetPolicy != infrav1.ResetPolicyManual {
			return fmt.Errorf("%v", list.Items)
		}
		return nil
	})
	f.awaitTopology()
	f.passTime(t)
	before = f.generations()
	f.reconcileAgain()
	if after := f.generations(); !maps.Equal(before, after) {
		t.Errorf("a topology at rest changed after its class did:\n%v\n%v", before, after)
	}
	f.refusesOtherChanges()
}

func (f *fixture) kindsMade() []string {
	kinds := map[string]bool{}
	for name := range f.generations() {
		kind, _, _ := strings.Cut(name, " ")
		kinds[kind] = true
	}
	return slices.Sorted(maps.Keys(kinds))
}

// clonedTemplates are those the topology controller made of the class's.
func (f *fixture) clonedTemplates() []string {
	f.t.Helper()
	list := &infrav1.HostMachineTemplateList{}
	f.list(list, client.HasLabels{clusterv1.ClusterTopologyOwnedLabel})
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// copyTemplate makes a template of another content.
func (f *fixture) copyTemplate(kind, name, renamed string) *unstructured.Unstructured {
	f.t.Helper()
	before := f.asCoreReads(f.t, kind, client.ObjectKey{Namespace: f.namespace, Name: name})
	template := f.sample(kind, f.namespace, renamed)
	template.Object["spec"] = before.Object["spec"]
	if err := unstructured.SetNestedField(template.Object, string(infrav1.ResetPolicyManual), "spec", "template", "spec", "resetPolicy"); err != nil {
		f.t.Fatal(err)
	}
	return template
}

// refusesOtherChanges holds that only the dry run of the topology controller may
// change a template, for every kind of template.
func (f *fixture) refusesOtherChanges() {
	f.t.Helper()
	for _, kind := range kinds {
		if !strings.HasSuffix(kind, "Template") {
			continue
		}
		template := f.sample(kind, f.namespace, "immutable")
		f.create(template)
		try := func(dryRun bool, annotated bool) error {
			changed := template.DeepCopy()
			field := []string{"spec", "template", "spec", "resetPolicy"}
			value := any(string(infrav1.ResetPolicyManual))
			if kind == "HostClusterTemplate" {
				field, value = []string{"spec", "template", "spec", "failureDomainLabel"}, "rack"
			}
			if err := unstructured.SetNestedField(changed.Object, value, field...); err != nil {
				return err
			}
			if annotated {
				changed.SetAnnotations(map[string]string{clusterv1.TopologyDryRunAnnotation: ""})
			}
			var options []client.UpdateOption
			if dryRun {
				options = append(options, client.DryRunAll)
			}
			return f.Client.Update(f.t.Context(), changed, options...)
		}
		if err := try(true, true); err != nil {
			f.t.Errorf("%s refuses the topology controller's dry run: %v", kind, err)
		}
		for _, c := range []struct{ dryRun, annotated bool }{{true, false}, {false, true}, {false, false}} {
			if err := try(c.dryRun, c.annotated); err == nil {
				f.t.Errorf("%s can be changed: dry run %v, annotation %v", kind, c.dryRun, c.annotated)
			}
		}
	}
}
