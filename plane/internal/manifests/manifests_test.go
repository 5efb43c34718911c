package manifests

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
)

func parse(t *testing.T, o Object) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(o.Raw, &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func upstreamObjects(t *testing.T) []Object {
	t.Helper()
	objs, err := Upstream()
	if err != nil {
		t.Fatal(err)
	}
	return objs
}

func TestRenderedSetIsComplete(t *testing.T) {
	var names []string
	for _, o := range upstreamObjects(t) {
		names = append(names, o.String())
	}
	for _, want := range []string{
		"customresourcedefinitions providers.clusterctl.cluster.x-k8s.io",
		"customresourcedefinitions clusters.cluster.x-k8s.io",
		"customresourcedefinitions clusterclasses.cluster.x-k8s.io",
		"customresourcedefinitions machines.cluster.x-k8s.io",
		"customresourcedefinitions machinesets.cluster.x-k8s.io",
		"customresourcedefinitions machinedeployments.cluster.x-k8s.io",
		"customresourcedefinitions machinepools.cluster.x-k8s.io",
		"customresourcedefinitions machinehealthchecks.cluster.x-k8s.io",
		"customresourcedefinitions machinedrainrules.cluster.x-k8s.io",
		"customresourcedefinitions clusterresourcesets.addons.cluster.x-k8s.io",
		"customresourcedefinitions clusterresourcesetbindings.addons.cluster.x-k8s.io",
		"customresourcedefinitions extensionconfigs.runtime.cluster.x-k8s.io",
		"customresourcedefinitions ipaddresses.ipam.cluster.x-k8s.io",
		"customresourcedefinitions ipaddressclaims.ipam.cluster.x-k8s.io",
		"customresourcedefinitions kubeadmconfigs.bootstrap.cluster.x-k8s.io",
		"customresourcedefinitions kubeadmconfigtemplates.bootstrap.cluster.x-k8s.io",
		"customresourcedefinitions kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",
		"customresourcedefinitions kubeadmcontrolplanetemplates.controlplane.cluster.x-k8s.io",
		"validatingwebhookconfigurations capi-validating-webhook-configuration",
		"mutatingwebhookconfigurations capi-kubeadm-bootstrap-mutating-webhook-configuration",
		"mutatingwebhookconfigurations capi-kubeadm-control-plane-mutating-webhook-configuration",
		"clusterroles capi-aggregated-manager-role",
		"clusterrolebindings capi-manager-rolebinding",
		"namespaces capi-system",
		"providers capi-system/cluster-api",
		"providers capi-kubeadm-bootstrap-system/bootstrap-kubeadm",
		"providers capi-kubeadm-control-plane-system/control-plane-kubeadm",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

func TestRenderedLabels(t *testing.T) {
	for _, o := range upstreamObjects(t) {
		u := parse(t, o)
		if o.Mount == "clusterctl" {
			if u.GetLabels()[clusterctlv1.ClusterctlCoreLabel] != clusterctlv1.ClusterctlCoreLabelInventoryValue {
				t.Errorf("%s: labels %v", &o, u.GetLabels())
			}
			continue
		}
		if u.GetLabels()["cluster.x-k8s.io/provider"] != o.Mount {
			t.Errorf("%s: provider label %v", &o, u.GetLabels())
		}
		if _, ok := u.GetLabels()[clusterctlv1.ClusterctlLabel]; !ok {
			t.Errorf("%s lacks the label that clusterctl move looks for", &o)
		}
		// Core's kinds are named by nobody's reference, and have none upstream.
		if o.isCRD() && o.Mount != Core.Label() && u.GetLabels()["cluster.x-k8s.io/v1beta2"] == "" {
			t.Errorf("%s has no contract label", &o)
		}
		if strings.Contains(string(o.Raw), "cert-manager.io") {
			t.Errorf("%s asks cert-manager for something", &o)
		}
	}
}

// TestNoServiceIsLeft: the plane has no Services, so a reference that is not
// replaced would fail every request.
func TestNoServiceIsLeft(t *testing.T) {
	w := webhooks{base: "https://127.0.0.1:9443", ca: []byte("CA")}
	hooks := 0
	for _, o := range upstreamObjects(t) {
		u := parse(t, o)
		if err := w.fill(o.Mount, u); err != nil {
			t.Fatalf("%s: %v", &o, err)
		}
		for _, config := range clientConfigs(t, u) {
			hooks++
			url, _, _ := unstructured.NestedString(config, "url")
			ca, _, _ := unstructured.NestedString(config, "caBundle")
			if !strings.HasPrefix(url, "https://127.0.0.1:9443/"+o.Mount+"/") || ca != "Q0E=" || config["service"] != nil {
				t.Errorf("%s: %v", &o, config)
			}
		}
	}
	if hooks < 30 {
		t.Errorf("only %d webhooks were found", hooks)
	}
}

func clientConfigs(t *testing.T, u *unstructured.Unstructured) []map[string]any {
	t.Helper()
	var configs []map[string]any
	if c, ok, _ := unstructured.NestedMap(u.Object, "spec", "conversion", "webhook", "clientConfig"); ok {
		configs = append(configs, c)
	}
	hooks, _, err := unstructured.NestedSlice(u.Object, "webhooks")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hooks {
		c, _, err := unstructured.NestedMap(h.(map[string]any), "clientConfig")
		if err != nil {
			t.Fatal(err)
		}
		configs = append(configs, c)
	}
	return configs
}

const testFiles = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: hosts.example.dev
  labels: {cluster.x-k8s.io/v1beta2: v1beta2}
spec:
  versions: [{name: v1beta1}, {name: v1beta2}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: pools.example.dev
spec:
  versions: [{name: v1beta2}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: validating-webhook-configuration
webhooks:
- name: a
  clientConfig: {service: {name: webhook-service, namespace: system, path: /validate}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: not-installed}
`

func TestFromFiles(t *testing.T) {
	p := Provider{Name: "example", Type: clusterctlv1.InfrastructureProviderType, Namespace: "example-system", Version: "v0.1.0"}
	objs, err := FromFiles(p, fstest.MapFS{
		"crd/a.yaml": {Data: []byte(testFiles)}, "README.md": {Data: []byte("kind: Nothing")},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*unstructured.Unstructured{}
	for _, o := range objs {
		if o.Mount != "infrastructure-example" {
			t.Errorf("%s is mounted at %s", &o, o.Mount)
		}
		got[o.String()] = parse(t, o)
	}
	want := []string{
		"customresourcedefinitions hosts.example.dev", "customresourcedefinitions pools.example.dev",
		"validatingwebhookconfigurations example-validating-webhook-configuration",
		"namespaces example-system", "providers example-system/infrastructure-example",
	}
	for _, name := range want {
		u := got[name]
		if u == nil {
			t.Fatalf("%s is missing; got %v", name, objs)
		}
		if u.GetLabels()["cluster.x-k8s.io/provider"] != "infrastructure-example" {
			t.Errorf("%s: labels %v", name, u.GetLabels())
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d objects, want %d", len(got), len(want))
	}
	if got[want[0]].GetLabels()["cluster.x-k8s.io/v1beta2"] != "v1beta2" {
		t.Error("the contract label was lost")
	}
	strategy := func(name string) string {
		s, _, _ := unstructured.NestedString(got[name].Object, "spec", "conversion", "strategy")
		return s
	}
	if strategy(want[0]) != "Webhook" || strategy(want[1]) != "" {
		t.Errorf("conversion of two versions: %q, of one: %q", strategy(want[0]), strategy(want[1]))
	}
}

func TestFromFilesNamesTheBrokenFile(t *testing.T) {
	_, err := FromFiles(Provider{Name: "x", Type: clusterctlv1.InfrastructureProviderType}, fstest.MapFS{"crd/bad.yaml": {Data: []byte("a: [")}})
	if err == nil || !strings.Contains(err.Error(), "crd/bad.yaml") {
		t.Errorf("got %v", err)
	}
}

func TestHashCoversEverything(t *testing.T) {
	o := Object{Mount: "m", Raw: []byte("raw")}
	base := webhooks{base: "u", ca: []byte("c")}
	seen := map[string]string{base.hash(&o): "the object itself"}
	for what, v := range map[string]struct {
		hooks webhooks
		obj   Object
	}{
		"content": {base, Object{Mount: "m", Raw: []byte("rat")}},
		"mount":   {base, Object{Mount: "n", Raw: []byte("raw")}},
		"url":     {webhooks{base: "v", ca: []byte("c")}, o},
		"ca":      {webhooks{base: "u", ca: []byte("d")}, o},
		"own url": {webhooks{base: "u", own: map[string]string{"m": "v"}, ca: []byte("c")}, o},
	} {
		h := v.hooks.hash(&v.obj)
		if other, ok := seen[h]; ok {
			t.Errorf("a change of %s gives the hash of %s", what, other)
		}
		seen[h] = what
	}
}
