package webhook_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/cluster-api/util/contract"

	"github.com/slipway-dev/slipway/api/v1beta1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// raw reads an object as core does: without its type.
func raw(t *testing.T, o client.Object, kind, version string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: infrav1.GroupVersion.Group, Version: version, Kind: kind})
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(o), u); err != nil {
		t.Fatalf("read %s %s: %v", kind, version, err)
	}
	return u
}

func create(t *testing.T, o client.Object) {
	t.Helper()
	if err := env.Client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func updateStatus(t *testing.T, o client.Object) {
	t.Helper()
	if err := env.Client.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func read[T client.Object](t *testing.T, of client.Object, into T) T {
	t.Helper()
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(of), into); err != nil {
		t.Fatal(err)
	}
	return into
}

func meta(t *testing.T, name string) metav1.ObjectMeta {
	t.Helper()
	testenv.Skip(t)
	return metav1.ObjectMeta{Namespace: env.Namespace(t), Name: name}
}

func nested(t *testing.T, u *unstructured.Unstructured, path string) any {
	t.Helper()
	value, _, err := unstructured.NestedFieldCopy(u.Object, strings.Split(path, ".")...)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

var readyCondition = []metav1.Condition{{
	Type: clusterv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Provisioned", Message: "All is well", LastTransitionTime: metav1.Now().Rfc3339Copy(),
}}

// TestCRDs holds what core needs to know of a CRD before it reads an object.
func TestCRDs(t *testing.T) {
	testenv.Skip(t)
	for kind := range env.Scheme.KnownTypes(infrav1.GroupVersion) {
		if !strings.HasPrefix(kind, "Host") || strings.HasSuffix(kind, "List") {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			name := contract.CalculateCRDName(infrav1.GroupVersion.Group, kind)
			if err := env.Client.Get(t.Context(), client.ObjectKey{Name: name}, crd); err != nil {
				t.Fatal(err)
			}
			if crd.Spec.Scope != apiextensionsv1.NamespaceScoped {
				t.Error("is not namespaced")
			}
			if crd.Spec.Names.ListKind != kind+"List" || env.Scheme.KnownTypes(infrav1.GroupVersion)[kind+"List"] == nil {
				t.Errorf("list kind is %q", crd.Spec.Names.ListKind)
			}
			served := map[string]bool{}
			for _, v := range crd.Spec.Versions {
				served[v.Name] = v.Served
				if v.Storage != (v.Name == "v1beta2") {
					t.Errorf("version %s: storage is %v", v.Name, v.Storage)
				}
			}
			// Kinds that came after v1beta1 have none of it, nor its label.
			for version, has := range map[string]bool{"v1beta1": env.Scheme.KnownTypes(v1beta1.GroupVersion)[kind] != nil, "v1beta2": true} {
				if served[version] != has || (crd.Labels["cluster.x-k8s.io/"+version] == version) != has {
					t.Errorf("version %s: served is %v, labels are %v", version, served[version], crd.Labels)
				}
			}
		})
	}
}

func TestHostClusterVersions(t *testing.T) {
	written := &v1beta1.HostCluster{ObjectMeta: meta(t, "c")}
	written.Spec.ControlPlaneEndpoint = v1beta1.APIEndpoint{Host: "10.0.0.1", Port: 6443}
	create(t, written)
	written.Status = v1beta1.HostClusterStatus{
		Ready:          true,
		FailureReason:  ptr.To("NoNetwork"),
		FailureMessage: ptr.To("No route to the hosts"),
		FailureDomains: map[string]v1beta1.FailureDomainSpec{
			"rack-b": {Attributes: map[string]string{"row": "2"}}, "rack-a": {ControlPlane: true},
		},
		Conditions: readyCondition,
	}
	updateStatus(t, written)

	stored := read(t, written, &infrav1.HostCluster{})
	if !reflect.DeepEqual(stored.Status.Initialization.Provisioned, ptr.To(true)) || stored.Spec.ControlPlaneEndpoint != clusterv1.APIEndpoint(written.Spec.ControlPlaneEndpoint) {
		t.Errorf("v1beta2: spec %+v, status %+v", stored.Spec, stored.Status)
	}
	if want := []clusterv1.FailureDomain{
		{Name: "rack-a", ControlPlane: ptr.To(true)},
		{Name: "rack-b", ControlPlane: ptr.To(false), Attributes: map[string]string{"row": "2"}},
	}; !reflect.DeepEqual(stored.Status.FailureDomains, want) {
		t.Errorf("v1beta2: failure domains %+v", stored.Status.FailureDomains)
	}
	if again := read(t, written, &v1beta1.HostCluster{}); !reflect.DeepEqual(again.Status, written.Status) {
		t.Errorf("v1beta1 was written as %+v and is read as %+v", written.Status, again.Status)
	}

	one := raw(t, written, "HostCluster", "v1beta1")
	if ready, err := external.IsReady(one); err != nil || !ready {
		t.Errorf("external.IsReady: %v, %v", ready, err)
	}
	if reason, message, err := external.FailuresFrom(one); err != nil || reason != "NoNetwork" || message != "No route to the hosts" {
		t.Errorf("external.FailuresFrom: %q, %q, %v", reason, message, err)
	}
	assertConditions(t, one, raw(t, written, "HostCluster", "v1beta2"))
	domains := clusterv1beta1.FailureDomains{}
	decodeInto(t, nested(t, one, "status.failureDomains"), &domains)
	if !domains["rack-a"].ControlPlane || domains["rack-b"].ControlPlane || domains["rack-b"].Attributes["row"] != "2" {
		t.Errorf("as Cluster API's v1beta1 type: %v", domains)
	}
}

// TestEmptyEndpointOfV1Beta1: the APIEndpoint of contract v1beta1 writes both of its
// fields, also where nothing is known. That means the same as no endpoint, and can be set
// later.
func TestEmptyEndpointOfV1Beta1(t *testing.T) {
	object := meta(t, "c")
	empty, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&clusterv1beta1.APIEndpoint{})
	if err != nil {
		t.Fatal(err)
	}
	if len(empty) != 2 {
		t.Fatalf("Cluster API writes %v now", empty)
	}
	spec := map[string]any{"controlPlaneEndpoint": empty}
	for kind, spec := range map[string]map[string]any{
		"HostCluster":         spec,
		"HostClusterTemplate": {"template": map[string]any{"spec": spec}},
	} {
		for version, accepted := range map[string]bool{"v1beta1": true, "v1beta2": false} {
			u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
			u.SetGroupVersionKind(schema.GroupVersionKind{Group: infrav1.GroupVersion.Group, Version: version, Kind: kind})
			u.SetNamespace(object.Namespace)
			u.SetName(object.Name)
			if err := env.Client.Create(t.Context(), u); (err == nil) != accepted {
				t.Errorf("%s %s: %v", kind, version, err)
			}
		}
	}
	stored := &infrav1.HostCluster{ObjectMeta: object}
	if endpoint := nested(t, raw(t, stored, "HostCluster", "v1beta2"), "spec.controlPlaneEndpoint"); endpoint != nil {
		t.Errorf("v1beta2 has the endpoint %v", endpoint)
	}
	written := read(t, stored, &v1beta1.HostCluster{})
	written.Spec.ControlPlaneEndpoint.Host = "10.0.0.1"
	if err := env.Client.Update(t.Context(), written); err != nil {
		t.Errorf("an endpoint that was empty cannot be set: %v", err)
	}
	written.Spec.ControlPlaneEndpoint.Host = ""
	if err := env.Client.Update(t.Context(), written); err == nil || !strings.Contains(err.Error(), "cannot change once set") {
		t.Errorf("an endpoint that was set can be emptied: %v", err)
	}
}

// TestHostClusterKept: what v1beta1 cannot express outlives a write in v1beta1.
func TestHostClusterKept(t *testing.T) {
	stored := &infrav1.HostCluster{ObjectMeta: meta(t, "c")}
	create(t, stored)
	stored.Status.Initialization.Provisioned = ptr.To(false)
	stored.Status.FailureDomains = []clusterv1.FailureDomain{{Name: "z"}, {Name: "a", ControlPlane: ptr.To(true)}}
	updateStatus(t, stored)

	old := read(t, stored, &v1beta1.HostCluster{})
	old.Labels = map[string]string{"edited": "in-v1beta1"}
	if err := env.Client.Update(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	old = read(t, stored, old)
	old.Status.Conditions = readyCondition
	updateStatus(t, old)

	after := read(t, stored, &infrav1.HostCluster{})
	if after.Labels["edited"] == "" || len(after.Status.Conditions) != 1 {
		t.Error("the writes were lost")
	}
	if len(after.Annotations) != 0 {
		t.Errorf("annotations %v were stored", after.Annotations)
	}
	after.Status.Conditions = nil
	if !reflect.DeepEqual(after.Status, stored.Status) {
		t.Errorf("was %+v, is %+v", stored.Status, after.Status)
	}
}

func TestHostMachineVersions(t *testing.T) {
	stored := &infrav1.HostMachine{ObjectMeta: meta(t, "m")}
	stored.Spec.HostSelector = selector("ssd")
	stored.Spec.ProviderID = infrav1.ProviderID("ns", "host-1", "claim")
	create(t, stored)
	if ready, err := external.IsReady(raw(t, stored, "HostMachine", "v1beta1")); err != nil || ready {
		t.Errorf("before it is provisioned, external.IsReady is %v, %v", ready, err)
	}
	stored.Status = infrav1.HostMachineStatus{
		Initialization: infrav1.InitializationStatus{Provisioned: ptr.To(true)},
		Addresses:      []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.2"}},
		FailureDomain:  "rack-a",
		HostRef:        infrav1.HostReference{Name: "host-1"},
		Conditions:     readyCondition,
	}
	updateStatus(t, stored)

	one, two := raw(t, stored, "HostMachine", "v1beta1"), raw(t, stored, "HostMachine", "v1beta2")
	if ready, err := external.IsReady(one); err != nil || !ready {
		t.Errorf("external.IsReady: %v, %v", ready, err)
	}
	assertConditions(t, one, two)
	for path, want := range map[string]any{
		"spec.providerID": stored.Spec.ProviderID, "status.failureDomain": "rack-a",
		"status.addresses": []any{map[string]any{"type": "InternalIP", "address": "10.0.0.2"}},
	} {
		if a, b := nested(t, one, path), nested(t, two, path); !reflect.DeepEqual(a, want) || !reflect.DeepEqual(b, want) {
			t.Errorf("%s: v1beta1 %v, v1beta2 %v, want %v", path, a, b, want)
		}
	}
	if nested(t, one, "status.initialization") != nil || nested(t, two, "status.ready") != nil {
		t.Error("a version has a field of the other contract")
	}
}

func TestHostMachinePoolVersions(t *testing.T) {
	written := &v1beta1.HostMachinePool{ObjectMeta: meta(t, "p")}
	written.Spec.ProviderIDList = []string{infrav1.ProviderID("ns", "host-1", "claim")}
	create(t, written)
	written.Status = v1beta1.HostMachinePoolStatus{
		Ready: true, Replicas: 1, ReadyReplicas: 1, InfrastructureMachineKind: "HostMachine",
		Instances:  []infrav1.HostMachinePoolInstanceStatus{{InstanceName: "m", Ready: true}},
		Conditions: readyCondition,
	}
	updateStatus(t, written)

	if stored := read(t, written, &infrav1.HostMachinePool{}); !stored.Status.Ready || !reflect.DeepEqual(stored.Status.Initialization.Provisioned, ptr.To(true)) {
		t.Errorf("v1beta2: %+v", stored.Status)
	}
	one, two := raw(t, written, "HostMachinePool", "v1beta1"), raw(t, written, "HostMachinePool", "v1beta2")
	// Core reads status.ready of pools whatever the contract.
	for _, u := range []*unstructured.Unstructured{one, two} {
		if ready, err := external.IsReady(u); err != nil || !ready {
			t.Errorf("%s: external.IsReady: %v, %v", u.GetAPIVersion(), ready, err)
		}
		if nested(t, u, "status.replicas") != int64(1) || nested(t, u, "status.infrastructureMachineKind") != "HostMachine" {
			t.Errorf("%s: status %v", u.GetAPIVersion(), u.Object["status"])
		}
		if list := nested(t, u, "spec.providerIDList"); !reflect.DeepEqual(list, []any{written.Spec.ProviderIDList[0]}) {
			t.Errorf("%s: providerIDList %v", u.GetAPIVersion(), list)
		}
	}
	assertConditions(t, one, two)
}

// TestValidatorsSeeV1Beta1 holds that the older version is no way around a rule.
func TestValidatorsSeeV1Beta1(t *testing.T) {
	template := &v1beta1.HostMachineTemplate{ObjectMeta: meta(t, "t")}
	template.Spec.Template.Spec = placed("ssd")
	create(t, template)
	template.Spec.Template.Spec = placed("hdd")
	if err := env.Client.Update(t.Context(), template); err == nil || !strings.Contains(err.Error(), "cannot be changed") {
		t.Errorf("a template was changed: %v", err)
	}
	host := &v1beta1.Host{ObjectMeta: meta(t, "h")}
	host.Spec.HostID = "a"
	create(t, host)
	host.Spec.HostID = "b"
	if err := env.Client.Update(t.Context(), host); err == nil || !strings.Contains(err.Error(), "hostID cannot change") {
		t.Errorf("the identity of a host was changed: %v", err)
	}
}

// assertConditions reads the Ready condition by both readers that core has.
func assertConditions(t *testing.T, objects ...*unstructured.Unstructured) {
	t.Helper()
	for _, u := range objects {
		c, err := conditions.UnstructuredGet(u, clusterv1.ReadyCondition)
		if err != nil || c == nil || c.Status != metav1.ConditionTrue || c.Reason != "Provisioned" {
			t.Errorf("%s: conditions.UnstructuredGet: %v, %v", u.GetAPIVersion(), c, err)
		}
		old := v1beta1conditions.Get(v1beta1conditions.UnstructuredGetter(u), clusterv1.ReadyV1Beta1Condition)
		if old == nil || old.Status != "True" || old.Message != "All is well" {
			t.Errorf("%s: the deprecated reader finds %v", u.GetAPIVersion(), old)
		}
	}
}

func decodeInto(t *testing.T, value, into any) {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}
