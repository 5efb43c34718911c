package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

func TestMain(m *testing.M) { judge.Main(m, "../../../bin") }

const (
	oldVersion = "v1.35.4"
	newVersion = "v1.36.3"
	// nextVersion is that of an upgrade that nobody may begin yet.
	nextVersion = "v1.36.4"
)

// TestUpstreamManager lets upstream's core manager discover an extension built on
// the SDK and call it through the life of a Cluster: created, initialized, upgraded
// and deleted. At each of the moments it waits for the extension.
func TestUpstreamManager(t *testing.T) {
	s, recorder := startRecorded(t)
	moments := life()
	for i, m := range moments {
		m.comes(s)
		s.expectHeld(recorder, m, moments[i+1:])
		recorder.release(m.hook)
	}
	s.eventually("the Cluster is deleted after its hook let it go", func() bool {
		return apierrors.IsNotFound(s.Get(t.Context(), s.key, &clusterv1.Cluster{}))
	})
	var lifecycle []string
	for _, m := range moments {
		lifecycle = append(lifecycle, m.hook)
	}
	got := slices.DeleteFunc(recorder.order(), func(name string) bool { return !slices.Contains(lifecycle, name) })
	if !slices.Equal(got, lifecycle) {
		t.Errorf("the lifecycle hooks were called in the order %v, want %v", got, lifecycle)
	}
	if len(recorder.undue) > 0 {
		t.Errorf("slipway-lifecycle would refuse calls of upstream's core: %q", recorder.undue)
	}
	for _, name := range []string{"GeneratePatches", "ValidateTopology", "DiscoverVariables", "GenerateUpgradePlan"} {
		if recorder.count(name) == 0 {
			t.Errorf("hook %s was never called", name)
		}
	}
}

// stage is a management cluster with the objects of one Cluster.
type stage struct {
	client.Client
	t   *testing.T
	key client.ObjectKey
}

func start(t *testing.T) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, runtimev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	core := judge.Core
	core.Flags = append(slices.Clone(core.Flags), "--feature-gates=RuntimeSDK=true")
	dir := t.TempDir()
	plane, err := judge.Start(t.Context(), judge.Options{Kit: judge.NewKit(), Dir: dir, Scheme: scheme, Subjects: []judge.Subject{core}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, line := range plane.Logged("E1") {
				t.Log(line)
			}
		}
		if err := plane.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	for _, object := range manifests() {
		if err := plane.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return &stage{Client: plane.Client, t: t, key: client.ObjectKey{Namespace: "default", Name: "my-cluster"}}
}

// eventually waits for what upstream's controllers do.
func (s *stage) eventually(what string, done func() bool) {
	s.t.Helper()
	poll.Until(s.t, what, func() error {
		if done() {
			return nil
		}
		return errors.New(s.describe())
	})
}

func (s *stage) describe() string {
	cluster := &clusterv1.Cluster{}
	if err := s.Get(context.WithoutCancel(s.t.Context()), s.key, cluster); err != nil {
		return err.Error()
	}
	var lines []string
	for _, condition := range cluster.Status.Conditions {
		lines = append(lines, fmt.Sprintf("%s=%s %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message))
	}
	return strings.Join(lines, "\n")
}

// discover registers the extension and waits until upstream knows its handlers.
func (s *stage) discover(ext *hooktest.Extension) {
	s.t.Helper()
	config := hooktest.Config("ext", ext.URL, ext.CA.PEM)
	config.ResourceVersion = ""
	if err := s.Create(s.t.Context(), config); err != nil {
		s.t.Fatal(err)
	}
	s.eventually("the extension is discovered", func() bool {
		err := s.Get(s.t.Context(), client.ObjectKeyFromObject(config), config)
		// Upstream writes the condition before the handlers.
		return err == nil && conditions.IsTrue(config, runtimev1.ExtensionConfigDiscoveredCondition) && len(config.Status.Handlers) == 13
	})
	for _, h := range config.Status.Handlers {
		if h.Name == "before-create.ext" && h.TimeoutSeconds != 5 {
			s.t.Errorf("upstream learned a timeout of %d s, want 5", h.TimeoutSeconds)
		}
	}
}

func (s *stage) createClass() {
	s.t.Helper()
	for _, kind := range []string{infraKind, controlPlaneKind, machineKind, bootstrapKind} {
		object := template(s.key.Namespace, kind, map[string]any{"origin": "template"})
		s.eventually("a template is accepted", func() bool {
			err := s.Create(s.t.Context(), object)
			return err == nil || apierrors.IsAlreadyExists(err)
		})
	}
	class := &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: "class"}}
	class.Spec.Infrastructure.TemplateRef = templateRef(infraKind)
	class.Spec.ControlPlane.TemplateRef = templateRef(controlPlaneKind)
	class.Spec.Workers.MachineDeployments = []clusterv1.MachineDeploymentClass{{
		Class:          "workers",
		Bootstrap:      clusterv1.MachineDeploymentClassBootstrapTemplate{TemplateRef: templateRef(bootstrapKind)},
		Infrastructure: clusterv1.MachineDeploymentClassInfrastructureTemplate{TemplateRef: templateRef(machineKind)},
	}}
	class.Spec.Patches = []clusterv1.ClusterClassPatch{{Name: "external", External: &clusterv1.ExternalPatchDefinition{
		DiscoverVariablesExtension: "variables.ext", GeneratePatchesExtension: "patches.ext", ValidateTopologyExtension: "validate.ext",
	}}}
	class.Spec.Upgrade.External.GenerateUpgradePlanExtension = "plan.ext"
	if err := s.Create(s.t.Context(), class); err != nil {
		s.t.Fatal(err)
	}
	s.eventually("the ClusterClass has the discovered variable", func() bool {
		err := s.Get(s.t.Context(), client.ObjectKeyFromObject(class), class)
		return err == nil && len(class.Status.Variables) == 1 && class.Status.Variables[0].Name == "size"
	})
}

func (s *stage) createCluster() {
	s.t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: s.key.Name}}
	cluster.Spec.Topology = clusterv1.Topology{
		ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: oldVersion,
		Variables: []clusterv1.ClusterVariable{{Name: "size", Value: apiextensionsv1.JSON{Raw: []byte(`"large"`)}}},
		Workers: clusterv1.WorkersTopology{MachineDeployments: []clusterv1.MachineDeploymentTopology{
			{Class: "workers", Name: "md", Replicas: ptr.To(int32(0))},
		}},
	}
	if err := s.Create(s.t.Context(), cluster); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) cluster() *clusterv1.Cluster {
	s.t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := s.Get(s.t.Context(), s.key, cluster); err != nil {
		s.t.Fatal(err)
	}
	return cluster
}

func (s *stage) update(change func(*clusterv1.Cluster)) {
	s.t.Helper()
	s.eventually("the Cluster is changed", func() bool {
		cluster := s.cluster()
		change(cluster)
		return s.Update(s.t.Context(), cluster) == nil
	})
}

// playProvider does what the controllers of the provider would do.
func (s *stage) playProvider() {
	s.t.Helper()
	s.write(infraKind, func(infra *unstructured.Unstructured) error {
		s.set(infra, "10.0.0.1", "spec", "controlPlaneEndpoint", "host")
		s.set(infra, int64(6443), "spec", "controlPlaneEndpoint", "port")
		return s.Update(s.t.Context(), infra)
	})
	s.write(infraKind, func(infra *unstructured.Unstructured) error {
		s.set(infra, true, "status", "initialization", "provisioned")
		return s.Status().Update(s.t.Context(), infra)
	})
	s.write(controlPlaneKind, func(controlPlane *unstructured.Unstructured) error {
		s.set(controlPlane, true, "status", "initialization", "controlPlaneInitialized")
		s.set(controlPlane, oldVersion, "status", "version")
		return s.Status().Update(s.t.Context(), controlPlane)
	})
}

// write changes the object of kind, again when upstream has written it meanwhile.
func (s *stage) write(kind string, change func(*unstructured.Unstructured) error) {
	s.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { return change(s.object(kind)) })
	if err != nil {
		s.t.Fatal(err)
	}
}

// seenPending is a label that the Cluster gets once upstream has written down that it will call
// AfterControlPlaneUpgrade. Upstream reads the Cluster from a cache: that a request tells of the label
// shows that it sees what it has written.
const seenPending = "test.slipway.dev/seen-pending"

// followVersion upgrades the control plane once it is told to, and upstream's cache has the hook that
// is to follow. A real control plane takes longer than that.
func (s *stage) followVersion(r *recorder) {
	s.t.Helper()
	if cluster := s.cluster(); cluster.Labels[seenPending] == "" {
		patch := client.MergeFrom(cluster.DeepCopy())
		metav1.SetMetaDataLabel(&cluster.ObjectMeta, seenPending, "true")
		if err := s.Patch(s.t.Context(), cluster, patch); err != nil {
			s.t.Fatal(err)
		}
	}
	controlPlane := s.object(controlPlaneKind)
	wanted, _, _ := unstructured.NestedString(controlPlane.Object, "spec", "version")
	is, _, _ := unstructured.NestedString(controlPlane.Object, "status", "version")
	if is == wanted || !r.seesPending.Load() {
		return
	}
	s.set(controlPlane, wanted, "status", "version")
	if err := s.Status().Update(s.t.Context(), controlPlane); err != nil && !apierrors.IsConflict(err) {
		s.t.Fatal(err)
	}
}

// object waits for the object that upstream made of a template of kind.
func (s *stage) object(kind string) *unstructured.Unstructured {
	s.t.Helper()
	var object *unstructured.Unstructured
	s.eventually("upstream makes a "+kind, func() bool {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(apiVersion)
		list.SetKind(kind + "List")
		if err := s.List(s.t.Context(), list, client.InNamespace(s.key.Namespace)); err != nil || len(list.Items) == 0 {
			return false
		}
		object = &list.Items[0]
		return true
	})
	return object
}

func (s *stage) set(object *unstructured.Unstructured, value any, path ...string) {
	s.t.Helper()
	if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
		s.t.Fatal(err)
	}
}

// expectPatched proves that upstream applied what GeneratePatches answered.
func (s *stage) expectPatched() {
	s.t.Helper()
	infra := s.object(infraKind)
	if size, _, _ := unstructured.NestedString(infra.Object, "spec", "size"); size != "large" {
		s.t.Errorf("the infrastructure has the size %q, want the value of the variable", size)
	}
}

// refuseSize proves that a failure of a handler reaches the user with its words.
func (s *stage) refuseSize() {
	s.t.Helper()
	set := func(size string) {
		s.update(func(c *clusterv1.Cluster) { c.Spec.Topology.Variables[0].Value.Raw = []byte(`"` + size + `"`) })
	}
	set("refused")
	s.eventually("the refusal of ValidateTopology is told", func() bool {
		return strings.Contains(s.describe(), "this size is refused")
	})
	set("large")
	s.eventually("the Cluster is well again", func() bool { return !strings.Contains(s.describe(), "this size is refused") })
}
