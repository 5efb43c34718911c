package provider

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

func provisioned(c *clusterv1.Cluster) string {
	return unless(ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false), "its infrastructure is not provisioned")
}

// passTime waits until a Cluster that is made now is provisioned. What was due
// before has then been done: it is how a rule looks at what must not happen.
func (s *Suite) passTime(t *testing.T) {
	t.Helper()
	f := newFixture(t, s)
	testenv.Object(t, s.Client, f.cluster, "another Cluster is provisioned", provisioned)
}

// passTimeOfPools is passTime for what a pool must not do: one that is made now has told
// that it waits for a host.
func (s *Suite) passTimeOfPools(t *testing.T) {
	t.Helper()
	f := newReadyFixture(t, s)
	testenv.Object(t, s.Client, f.newPool(1).infra, "another pool waits for a host", waitsForHost)
}

// asCoreReads is an object in the version core reads.
func (s *Suite) asCoreReads(t *testing.T, kind string, key client.ObjectKey) *unstructured.Unstructured {
	t.Helper()
	object := s.object(kind)
	if err := s.Client.Get(t.Context(), key, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// spec.controlPlaneEndpoint: core copies it to the Cluster.
func controlPlaneEndpoint(t *testing.T, s *Suite) {
	f := newFixture(t, s)
	testenv.Object(t, s.Client, f.cluster, "the Cluster has the endpoint", func(c *clusterv1.Cluster) string {
		return unless(c.Spec.ControlPlaneEndpoint == f.endpoint(), "%v", c.Spec.ControlPlaneEndpoint)
	})
	object := s.asCoreReads(t, "HostCluster", client.ObjectKeyFromObject(f.infra))
	host, _, _ := unstructured.NestedString(object.Object, "spec", "controlPlaneEndpoint", "host")
	port, _, _ := unstructured.NestedInt64(object.Object, "spec", "controlPlaneEndpoint", "port")
	if want := f.endpoint(); host != want.Host || port != int64(want.Port) {
		t.Errorf("controlPlaneEndpoint %s:%d", host, port)
	}
	if s.Contract == V1Beta1 {
		emptyEndpoint(t, s)
	}
}

// The apiEndpoint of contract v1beta1 has both fields always, empty when nothing is known.
func emptyEndpoint(t *testing.T, s *Suite) {
	t.Helper()
	object := s.sample("HostCluster", s.namespaceFor(t), "empty")
	object.Object["spec"] = map[string]any{"controlPlaneEndpoint": map[string]any{"host": "", "port": int64(0)}}
	if err := s.Client.Create(t.Context(), object); err != nil {
		t.Errorf("an empty endpoint: %v", err)
	}
}

// status.ready, or status.initialization.provisioned: core goes on with it.
func clusterReady(t *testing.T, s *Suite) {
	f := newFixture(t, s)
	testenv.Object(t, s.Client, f.cluster, "the Cluster is provisioned", provisioned)
	object := s.asCoreReads(t, "HostCluster", client.ObjectKeyFromObject(f.infra))
	path := []string{"status", "ready"}
	if s.Contract == V1Beta2 {
		path = []string{"status", "initialization", "provisioned"}
	}
	if ready, found, err := unstructured.NestedBool(object.Object, path...); !ready || !found || err != nil {
		t.Errorf("%v is %v, found %v: %v", path, ready, found, err)
	}
}

// status.failureReason and failureMessage. The provider sets neither, since core
// never takes them back; what a user sets by contract v1beta1 reaches the Cluster.
func clusterFailures(t *testing.T, s *Suite) {
	f := newFixture(t, s, func(_ *clusterv1.Cluster, infra *infrav1.HostCluster) {
		infra.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{}
	})
	testenv.Object(t, s.Client, f.infra, "the provider tells what is missing", func(c *infrav1.HostCluster) string {
		return unless(conditions.IsFalse(c, clusterv1.ReadyCondition), "no condition")
	})
	key := client.ObjectKeyFromObject(f.infra)
	object := s.asCoreReads(t, "HostCluster", key)
	for _, field := range []string{"failureReason", "failureMessage"} {
		if value, found, _ := unstructured.NestedString(object.Object, "status", field); found {
			t.Errorf("the provider set %s to %q", field, value)
		}
	}
	if s.Contract != V1Beta1 {
		return
	}
	patch := client.MergeFrom(object.DeepCopy())
	_ = unstructured.SetNestedField(object.Object, "Broken", "status", "failureReason")
	_ = unstructured.SetNestedField(object.Object, "the rack burns", "status", "failureMessage")
	if err := s.Client.Status().Patch(t.Context(), object, patch); err != nil {
		t.Fatal(err)
	}
	testenv.Object(t, s.Client, f.cluster, "the Cluster has the failure", func(c *clusterv1.Cluster) string {
		if c.Status.Deprecated == nil || c.Status.Deprecated.V1Beta1 == nil {
			return "none"
		}
		//nolint:staticcheck // the rule is about these fields
		reason, message := ptr.Deref(c.Status.Deprecated.V1Beta1.FailureReason, ""), ptr.Deref(c.Status.Deprecated.V1Beta1.FailureMessage, "")
		return unless(reason == "Broken" && strings.HasSuffix(message, "the rack burns"), "%s: %s", reason, message)
	})
}

// status.failureDomains reaches the Cluster, from the racks the hosts stand in.
func failureDomains(t *testing.T, s *Suite) {
	f := newFixture(t, s)
	for host, rack := range map[string]string{"h1": "rack-2", "h2": "rack-1", "h3": "rack-2"} {
		f.create(&infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: host}, Spec: infrav1.HostSpec{FailureDomain: rack}})
	}
	testenv.Object(t, s.Client, f.cluster, "the Cluster has the failure domains", func(c *clusterv1.Cluster) string {
		var names []string
		for _, domain := range c.Status.FailureDomains {
			if ptr.Deref(domain.ControlPlane, false) {
				names = append(names, domain.Name)
			}
		}
		slices.Sort(names)
		return unless(slices.Equal(names, []string{"rack-1", "rack-2"}), "%v", c.Status.FailureDomains)
	})
	object := s.asCoreReads(t, "HostCluster", client.ObjectKeyFromObject(f.infra))
	domains, _, _ := unstructured.NestedFieldNoCopy(object.Object, "status", "failureDomains")
	if _, isMap := domains.(map[string]any); isMap != (s.Contract == V1Beta1) {
		t.Errorf("failureDomains is a %T under contract %s", domains, s.Contract)
	}
}

// Normal 1: what is externally managed is left alone, and core goes on with what the other
// system writes. A control plane comes up on a host of ours, which is not told to hold the
// address that the other system gave.
func externallyManaged(t *testing.T, s *Suite) {
	f := newFixture(t, s, func(_ *clusterv1.Cluster, infra *infrav1.HostCluster) {
		infra.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "another system"}
		infra.Spec.FailureDomainLabel, infra.Spec.Endpoint.Type = "rack", infrav1.EndpointHostVIP
	})
	testenv.Object(t, s.Client, f.infra, "core makes itself the owner", func(c *infrav1.HostCluster) string {
		return unless(len(c.OwnerReferences) == 1, "no owner")
	})
	// Events of the object and of its Cluster never arrive; those of hosts do.
	f.create(&infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "h1", Labels: map[string]string{"rack": "r1"}}})
	s.passTime(t)
	object := f.leftAlone()
	path := []string{"status", "ready"}
	if s.Contract == V1Beta2 {
		path = []string{"status", "initialization", "provisioned"}
	}
	patch := client.MergeFrom(object.DeepCopy())
	_ = unstructured.SetNestedField(object.Object, true, path...)
	if err := s.Client.Status().Patch(t.Context(), object, patch); err != nil {
		t.Fatal(err)
	}
	testenv.Object(t, s.Client, f.cluster, "the Cluster is provisioned", provisioned)
	f.giveKubeconfig()
	f.addControlPlane()
	hosts := &infrav1.HostList{}
	f.list(hosts)
	requested := slices.DeleteFunc(hosts.Items, func(h infrav1.Host) bool { return h.Spec.Desired == nil })
	if len(requested) != 1 || requested[0].Spec.Desired.VirtualIP != "" {
		t.Errorf("the hosts with an operation are %+v", requested)
	}
	f.leftAlone()
}

// leftAlone holds that nothing of ours has touched the HostCluster.
func (f *fixture) leftAlone() *unstructured.Unstructured {
	f.t.Helper()
	object := f.asCoreReads(f.t, "HostCluster", client.ObjectKeyFromObject(f.infra))
	if len(object.GetFinalizers()) > 0 || len(objectConditions(object)) > 0 {
		f.t.Errorf("touched although externally managed: %v", object.Object)
	}
	return object
}

func objectConditions(object *unstructured.Unstructured) []any {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	return list
}

// Normal 2: without a Cluster as owner nothing is done.
func noOwner(t *testing.T, s *Suite) {
	object := s.sample("HostCluster", s.namespaceFor(t), "alone")
	if err := s.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	s.passTime(t)
	after := s.asCoreReads(t, "HostCluster", client.ObjectKeyFromObject(object))
	if after.GetGeneration() != 1 || len(after.GetFinalizers()) > 0 || len(objectConditions(after)) > 0 {
		t.Errorf("touched without an owner: %v", after.Object)
	}
}

// Normal 3: the finalizer is there before the cluster is provisioned.
func clusterFinalizer(t *testing.T, s *Suite) {
	f := newFixture(t, s)
	watch, err := s.Client.Watch(t.Context(), &infrav1.HostClusterList{}, client.InNamespace(f.namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		c, ok := event.Object.(*infrav1.HostCluster)
		if !ok {
			t.Fatalf("watch: %v", event.Object)
		}
		guarded := slices.Contains(c.Finalizers, infrav1.HostClusterFinalizer)
		if ptr.Deref(c.Status.Initialization.Provisioned, false) {
			if !guarded {
				t.Error("provisioned without a finalizer")
			}
			return
		}
	}
	t.Error("never provisioned")
}

// Normal 5: the address is recorded in spec.controlPlaneEndpoint, completed with
// the port, and taken from the Cluster when the user gave it there.
func endpointRecorded(t *testing.T, s *Suite) {
	for name, mutate := range map[string]func(*clusterv1.Cluster, *infrav1.HostCluster){
		"port completed": func(_ *clusterv1.Cluster, infra *infrav1.HostCluster) {
			infra.Spec.Endpoint.Type, infra.Spec.ControlPlaneEndpoint = infrav1.EndpointHostVIP, clusterv1.APIEndpoint{Host: "10.88.0.200"}
		},
		"from the Cluster": func(c *clusterv1.Cluster, infra *infrav1.HostCluster) {
			infra.Spec.Endpoint.Type, infra.Spec.ControlPlaneEndpoint = infrav1.EndpointHostVIP, clusterv1.APIEndpoint{}
			c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.88.0.200", Port: 6443}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, s, mutate)
			testenv.Object(t, s.Client, f.cluster, "the Cluster is provisioned", provisioned)
			testenv.Object(t, s.Client, f.infra, "the endpoint is recorded", func(c *infrav1.HostCluster) string {
				return unless(c.Spec.ControlPlaneEndpoint == clusterv1.APIEndpoint{Host: "10.88.0.200", Port: 6443}, "%v", c.Spec.ControlPlaneEndpoint)
			})
			if f.cluster.Spec.ControlPlaneEndpoint != f.infra.Spec.ControlPlaneEndpoint {
				t.Errorf("the Cluster has %v", f.cluster.Spec.ControlPlaneEndpoint)
			}
		})
	}
}

// Normal 4: an error ends the reconciliation; what is missing is told, and the
// Cluster comes up once it is there.
func errorsStop(t *testing.T, s *Suite) {
	f := newFixture(t, s, func(_ *clusterv1.Cluster, infra *infrav1.HostCluster) {
		infra.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{}
	})
	testenv.Object(t, s.Client, f.infra, "the provider tells what is missing", func(c *infrav1.HostCluster) string {
		return unless(conditions.IsFalse(c, clusterv1.ReadyCondition) && strings.Contains(conditions.GetMessage(c, clusterv1.ReadyCondition), "spec.controlPlaneEndpoint.host"),
			"%v", c.Status.Conditions)
	})
	s.passTime(t)
	testenv.Object(t, s.Client, f.cluster, "the Cluster waits", func(c *clusterv1.Cluster) string {
		return unless(provisioned(c) != "", "it is provisioned")
	})
	change(t, s, f.infra, func(c *infrav1.HostCluster) { c.Spec.ControlPlaneEndpoint = f.endpoint() })
	testenv.Object(t, s.Client, f.cluster, "the Cluster is provisioned", provisioned)
}

// Normal 8: the changes are persisted, and there are no more when nothing changes.
func clusterPersisted(t *testing.T, s *Suite) {
	f := newFixture(t, s)
	testenv.Object(t, s.Client, f.infra, "the condition is persisted", func(c *infrav1.HostCluster) string {
		return unless(conditions.IsTrue(c, clusterv1.ReadyCondition), "%v", c.Status.Conditions)
	})
	s.passTime(t)
	before := s.asCoreReads(t, "HostCluster", client.ObjectKeyFromObject(f.infra)).GetResourceVersion()
	s.passTime(t)
	if after := s.asCoreReads(t, "HostCluster", client.ObjectKeyFromObject(f.infra)).GetResourceVersion(); after != before {
		t.Errorf("written again without a change: resourceVersion %s, then %s", before, after)
	}
}

// Pausing, by the Cluster and by the annotation.
func clusterPausing(t *testing.T, s *Suite) {
	for name, mutate := range map[string]func(*clusterv1.Cluster, *infrav1.HostCluster){
		"Cluster": func(c *clusterv1.Cluster, infra *infrav1.HostCluster) {
			c.Spec.Paused = ptr.To(true)
			// A paused Cluster is not reconciled by core, which would set the owner.
			infra.Finalizers = []string{infrav1.HostClusterFinalizer}
		},
		"annotation": func(_ *clusterv1.Cluster, infra *infrav1.HostCluster) {
			infra.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, s, mutate)
			if name == "Cluster" {
				change(t, s, f.infra, func(c *infrav1.HostCluster) {
					c.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: clusterName, UID: f.cluster.UID}}
				})
			}
			testenv.Object(t, s.Client, f.infra, "the pause is told", func(c *infrav1.HostCluster) string {
				return unless(conditions.IsTrue(c, clusterv1.PausedCondition), "%v", c.Status.Conditions)
			})
			s.passTime(t)
			testenv.Object(t, s.Client, f.infra, "nothing is done", func(c *infrav1.HostCluster) string {
				return unless(c.Status.Initialization.Provisioned == nil && conditions.Get(c, clusterv1.ReadyCondition) == nil, "%v", c.Status)
			})
			change(t, s, f.infra, func(c *infrav1.HostCluster) { delete(c.Annotations, clusterv1.PausedAnnotation) })
			change(t, s, f.cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
			testenv.Object(t, s.Client, f.cluster, "the Cluster is provisioned", provisioned)
		})
	}
}

// The condition Ready is mirrored in the Cluster's InfrastructureReady.
func clusterConditions(t *testing.T, s *Suite) {
	f := newFixture(t, s, func(_ *clusterv1.Cluster, infra *infrav1.HostCluster) {
		infra.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{}
	})
	mirrors := func(c *clusterv1.Cluster) string {
		infra := &infrav1.HostCluster{}
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(f.infra), infra); err != nil {
			return err.Error()
		}
		ready, mirror := conditions.Get(infra, clusterv1.ReadyCondition), conditions.Get(c, clusterv1.ClusterInfrastructureReadyCondition)
		if ready == nil || mirror == nil {
			return "no condition"
		}
		return unless(mirror.Status == ready.Status && mirror.Reason == ready.Reason && mirror.Message == ready.Message, "%v is not %v", mirror, ready)
	}
	testenv.Object(t, s.Client, f.cluster, "the Cluster tells what is missing", func(c *clusterv1.Cluster) string {
		if !conditions.IsFalse(c, clusterv1.ClusterInfrastructureReadyCondition) {
			return "not False"
		}
		return mirrors(c)
	})
	change(t, s, f.infra, func(c *infrav1.HostCluster) { c.Spec.ControlPlaneEndpoint = f.endpoint() })
	testenv.Object(t, s.Client, f.cluster, "the Cluster tells that it is there", func(c *clusterv1.Cluster) string {
		if !conditions.IsTrue(c, clusterv1.ClusterInfrastructureReadyCondition) {
			return "not True"
		}
		return mirrors(c)
	})
}

// Deleted 1 to 3: with an owner, the infrastructure goes first, then the finalizer. Core
// deletes the HostCluster of a Cluster after its machines; here somebody was faster.
func deletedWithOwner(t *testing.T, s *Suite) {
	f := newReadyFixture(t, s)
	host := s.addHost(t, f.namespace, "h1")
	p := f.newPool(1)
	f.awaitNodes(p, 1)
	release := host.executor.holdResets()
	defer release()
	for _, object := range []client.Object{f.infra, f.cluster} {
		if err := s.Client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	h := &infrav1.Host{}
	h.Namespace, h.Name = host.key.Namespace, host.key.Name
	testenv.Object(t, s.Client, h, "the host is told to reset", func(h *infrav1.Host) string {
		return unless(h.Spec.Desired != nil && h.Spec.Desired.Phase == infrav1.HostDesiredReset, "%v", h.Spec.Desired)
	})
	s.passTime(t)
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(f.infra), f.infra); err != nil || !slices.Contains(f.infra.Finalizers, infrav1.HostClusterFinalizer) {
		t.Errorf("HostCluster went before its hosts were clean: %v, finalizers %v", err, f.infra.Finalizers)
	}
	release()
	testenv.Gone(t, s.Client, f.infra)
	testenv.Gone(t, s.Client, f.cluster)
	testenv.Object(t, s.Client, h, "the host is clean and free", func(h *infrav1.Host) string {
		return unless(h.Spec.Claim == nil && conditions.IsTrue(h, infrav1.AvailableCondition), "claim %v, phase %s", h.Spec.Claim, h.Status.Phase)
	})
	if resets := host.executor.finishedResets(); resets != 1 {
		t.Errorf("%d resets", resets)
	}
}

// Deleted without an owner: nothing is left to undo, the finalizer goes.
func deletedWithoutOwner(t *testing.T, s *Suite) {
	object := s.sample("HostCluster", s.namespaceFor(t), "alone")
	object.SetFinalizers([]string{infrav1.HostClusterFinalizer})
	if err := s.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	testenv.Gone(t, s.Client, object)
}
