package provider

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// newRunningPool makes a Cluster with hosts and a pool on all of them, and waits
// until core counts their Nodes.
func newRunningPool(t *testing.T, s *Suite, hosts int) (*fixture, *pool, []*simulatedHost) {
	t.Helper()
	f := newReadyFixture(t, s)
	simulated := s.addHosts(t, f.namespace, hosts)
	p := f.newPool(int32(hosts))
	f.awaitNodes(p, hosts)
	return f, p, simulated
}

// status.instances tells of every machine of the pool.
func instances(t *testing.T, s *Suite) {
	_, p, hosts := newRunningPool(t, s, 2)
	testenv.Object(t, s.Client, p.infra, "the instances are ready", func(p *infrav1.HostMachinePool) string {
		ready := 0
		for _, i := range p.Status.Instances {
			if i.Ready {
				ready++
			}
		}
		return unless(ready == 2 && len(p.Status.Instances) == 2, "%v", p.Status.Instances)
	})
	object := s.asCoreReads(t, "HostMachinePool", client.ObjectKeyFromObject(p.infra))
	list, _, err := unstructured.NestedSlice(object.Object, "status", "instances")
	if err != nil || len(list) != len(hosts) {
		t.Fatalf("instances %v: %v", list, err)
	}
	for _, item := range list {
		instance, ok := item.(map[string]any)
		if !ok || instance["instanceName"] == "" || instance["providerID"] == "" || instance["version"] != version || instance["ready"] != true {
			t.Errorf("instance %v", item)
		}
		if addresses, ok := instance["addresses"].([]any); !ok || len(addresses) == 0 {
			t.Errorf("no addresses: %v", item)
		}
	}
}

// spec.providerID identifies the pool.
func providerID(t *testing.T, s *Suite) {
	f := newFixture(t, s)
	p := f.newPool(0)
	want := "slipway://" + f.namespace + "/pools/pool"
	poll.Until(t, "the pool has its providerID", func() error {
		object := s.asCoreReads(t, "HostMachinePool", client.ObjectKeyFromObject(p.infra))
		if got, _, _ := unstructured.NestedString(object.Object, "spec", "providerID"); got != want {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
}

// spec.providerIDList: core deletes the Node of an ID that leaves it. So an ID
// leaves it only when its host has proved that it is clean.
func providerIDList(t *testing.T, s *Suite) {
	f, p, hosts := newRunningPool(t, s, 2)
	object := s.asCoreReads(t, "HostMachinePool", client.ObjectKeyFromObject(p.infra))
	ids, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "providerIDList")
	if len(ids) != 2 || !slices.IsSorted(ids) || !slices.Equal(ids, p.Spec.ProviderIDList) {
		t.Fatalf("providerIDList %v, the MachinePool has %v", ids, p.Spec.ProviderIDList)
	}
	release := map[*simulatedHost]func(){}
	for _, host := range hosts {
		release[host] = host.executor.holdResets()
		defer release[host]()
	}
	watch, err := s.Client.Watch(t.Context(), &infrav1.HostMachinePoolList{}, client.InNamespace(f.namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	f.scale(p, 1)
	leaving := f.awaitReset(hosts)
	s.passTimeOfPools(t)
	joined := &corev1.Node{}
	if err := s.Workload.Client.Get(t.Context(), client.ObjectKey{Name: leaving.key.Name}, joined); err != nil {
		t.Errorf("the Node of a host that is not clean yet: %v", err)
	}
	release[leaving]()
	for event := range watch.ResultChan() {
		changed, ok := event.Object.(*infrav1.HostMachinePool)
		if !ok {
			t.Fatalf("watch: %v", event.Object)
		}
		if slices.Contains(changed.Spec.ProviderIDList, joined.Spec.ProviderID) {
			continue
		}
		if leaving.executor.finishedResets() == 0 {
			t.Error("the providerID left the list before its host was clean")
		}
		break
	}
	testenv.Gone(t, s.Workload.Client, joined)
	f.awaitNodes(p, 1)
}

// awaitReset returns the host that is told to reset.
func (f *fixture) awaitReset(hosts []*simulatedHost) (leaving *simulatedHost) {
	f.t.Helper()
	poll.Until(f.t, "a host is told to reset", func() error {
		for _, host := range hosts {
			h := &infrav1.Host{}
			if err := f.Client.Get(f.t.Context(), host.key, h); err != nil {
				return err
			}
			if h.Spec.Desired != nil && h.Spec.Desired.Phase == infrav1.HostDesiredReset {
				leaving = host
				return nil
			}
		}
		return fmt.Errorf("none is")
	})
	return leaving
}

// waitsForHost says whether a pool of one has its member, and no host for it.
func waitsForHost(p *infrav1.HostMachinePool) string {
	return unless(len(p.Status.Instances) == 1 && p.Status.Replicas == 0 && conditions.IsFalse(p, clusterv1.ReadyCondition), "%v", p.Status)
}

// status.ready and status.initialization.provisioned: core reads the pool only
// after, and neither is ever taken back.
func initialization(t *testing.T, s *Suite) {
	f := newReadyFixture(t, s)
	p := f.newPool(1)
	testenv.Object(t, s.Client, p.infra, "the pool waits for a host", waitsForHost)
	s.passTimeOfPools(t)
	key := client.ObjectKeyFromObject(p.infra)
	if fields := initialized(s.asCoreReads(t, "HostMachinePool", key)); len(fields) > 0 {
		t.Errorf("initialized without a host: %v", fields)
	}
	testenv.Object(t, s.Client, p.MachinePool, "core waits, too", func(mp *clusterv1.MachinePool) string {
		return unless(!ptr.Deref(mp.Status.Initialization.InfrastructureProvisioned, false), "provisioned")
	})
	s.addHost(t, f.namespace, "h1")
	f.awaitNodes(p, 1)
	testenv.Object(t, s.Client, p.MachinePool, "core goes on", func(mp *clusterv1.MachinePool) string {
		return unless(ptr.Deref(mp.Status.Initialization.InfrastructureProvisioned, false), "not provisioned")
	})
	want := []string{"ready"}
	if s.Contract == V1Beta2 {
		want = append(want, "provisioned")
	}
	if got := initialized(s.asCoreReads(t, "HostMachinePool", key)); !slices.Equal(got, want) {
		t.Errorf("initialized: %v, want %v", got, want)
	}
	f.scale(p, 2)
	testenv.Object(t, s.Client, p.infra, "the pool waits for another host", func(p *infrav1.HostMachinePool) string {
		return unless(len(p.Status.Instances) == 2 && p.Status.Replicas == 1 && conditions.IsFalse(p, clusterv1.ReadyCondition), "%v", p.Status)
	})
	if got := initialized(s.asCoreReads(t, "HostMachinePool", key)); !slices.Equal(got, want) {
		t.Errorf("taken back: %v, want %v", got, want)
	}
}

// initialized names the fields that are true.
func initialized(object *unstructured.Unstructured) (fields []string) {
	if ready, _, _ := unstructured.NestedBool(object.Object, "status", "ready"); ready {
		fields = append(fields, "ready")
	}
	if done, _, _ := unstructured.NestedBool(object.Object, "status", "initialization", "provisioned"); done {
		fields = append(fields, "provisioned")
	}
	return fields
}

// Pausing, by the Cluster and by the annotation.
func poolPausing(t *testing.T, s *Suite) {
	f := newReadyFixture(t, s)
	p := f.newPool(1)
	ready := func(replicas int32) {
		testenv.Object(t, s.Client, p.infra, fmt.Sprintf("the pool has %d members", replicas), func(p *infrav1.HostMachinePool) string {
			return unless(len(p.Status.Instances) == int(replicas), "%d", len(p.Status.Instances))
		})
	}
	ready(1)
	paused := func(status bool) {
		testenv.Object(t, s.Client, p.infra, fmt.Sprintf("paused is %v", status), func(p *infrav1.HostMachinePool) string {
			return unless(conditions.IsTrue(p, clusterv1.PausedCondition) == status, "%v", p.Status.Conditions)
		})
	}
	for replicas, pause := range []func(bool){
		func(on bool) { change(t, s, f.cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(on) }) },
		func(on bool) {
			change(t, s, p.infra, func(p *infrav1.HostMachinePool) {
				if p.Annotations = map[string]string{}; on {
					p.Annotations[clusterv1.PausedAnnotation] = ""
				}
			})
		},
	} {
		before := int32(replicas + 1)
		pause(true)
		paused(true)
		f.scale(p, before+1)
		s.passTimeOfPools(t)
		if got := len(f.members(p)); got != int(before) {
			t.Errorf("%d members while paused, want %d", got, before)
		}
		pause(false)
		paused(false)
		ready(before + 1)
	}
}

// Conditions have what core reads, and Ready is mirrored in the MachinePool.
func poolConditions(t *testing.T, s *Suite) {
	f := newReadyFixture(t, s)
	p := f.newPool(1)
	mirrored := func(status corev1.ConditionStatus) {
		testenv.Object(t, s.Client, p.MachinePool, "InfrastructureReady is "+string(status), func(mp *clusterv1.MachinePool) string {
			mirror := v1beta1conditions.Get(mp, clusterv1.InfrastructureReadyV1Beta1Condition)
			if mirror == nil || mirror.Status != status {
				return fmt.Sprint(mirror)
			}
			if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(p.infra), p.infra); err != nil {
				return err.Error()
			}
			ready := conditions.Get(p.infra, clusterv1.ReadyCondition)
			return unless(ready != nil && string(ready.Status) == string(status) && (status == corev1.ConditionTrue || (mirror.Reason == ready.Reason && mirror.Message == ready.Message)), "%v is not %v", mirror, ready)
		})
	}
	mirrored(corev1.ConditionFalse)
	s.addHost(t, f.namespace, "h1")
	mirrored(corev1.ConditionTrue)
	for _, item := range objectConditions(s.asCoreReads(t, "HostMachinePool", client.ObjectKeyFromObject(p.infra))) {
		condition, ok := item.(map[string]any)
		if !ok {
			t.Fatalf("condition %v", item)
		}
		for _, field := range []string{"type", "status", "reason", "lastTransitionTime"} {
			if value, _ := condition[field].(string); value == "" {
				t.Errorf("condition without %s: %v", field, condition)
			}
		}
	}
}

// status.replicas becomes that of the MachinePool.
func replicas(t *testing.T, s *Suite) {
	f, p, _ := newRunningPool(t, s, 2)
	counted := func(want int64) {
		f.awaitNodes(p, int(want))
		object := s.asCoreReads(t, "HostMachinePool", client.ObjectKeyFromObject(p.infra))
		if got, found, err := unstructured.NestedInt64(object.Object, "status", "replicas"); got != want || !found || err != nil {
			t.Errorf("replicas %d, found %v: %v", got, found, err)
		}
	}
	counted(2)
	f.scale(p, 1)
	counted(1)
	f.scale(p, 0)
	counted(0)
}

// Where somebody else manages the replicas, they follow the machines there are
// (ReplicasManagedByAnnotation of core's API).
func replicasManagedBy(t *testing.T, s *Suite) {
	f := newReadyFixture(t, s)
	s.addHosts(t, f.namespace, 2)
	p := f.newPool(1, func(mp *clusterv1.MachinePool, _ *infrav1.HostMachinePool) {
		mp.Annotations = map[string]string{clusterv1.ReplicasManagedByAnnotation: "external-autoscaler"}
	})
	f.awaitNodes(p, 1)
	f.scale(p, 2)
	testenv.Object(t, s.Client, p.MachinePool, "the replicas follow the machines", func(mp *clusterv1.MachinePool) string {
		return unless(ptr.Deref(mp.Spec.Replicas, 0) == 1, "%d", ptr.Deref(mp.Spec.Replicas, 0))
	})
	f.awaitNodes(p, 1)
}

// Terminal failures are left out on purpose: core of this version panics when a pool
// has one. There is no field to write one into, and core lives on.
func poolTerminalFailures(t *testing.T, s *Suite) {
	f, p, _ := newRunningPool(t, s, 1)
	key := client.ObjectKeyFromObject(p.infra)
	object := s.asCoreReads(t, "HostMachinePool", key)
	patch := client.MergeFrom(object.DeepCopy())
	_ = unstructured.SetNestedField(object.Object, "Broken", "status", "failureReason")
	_ = unstructured.SetNestedField(object.Object, "the rack burns", "status", "failureMessage")
	if err := s.Client.Status().Patch(t.Context(), object, patch); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"failureReason", "failureMessage"} {
		if value, found, _ := unstructured.NestedString(s.asCoreReads(t, "HostMachinePool", key).Object, "status", field); found {
			t.Errorf("%s is stored: %q", field, value)
		}
	}
	f.scale(p, 0)
	f.awaitNodes(p, 0)
	if err := s.Failures(); err != nil {
		t.Error(err)
	}
}
