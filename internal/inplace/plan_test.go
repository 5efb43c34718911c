package inplace

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	hostTemplate    = `{"apiVersion":"infrastructure.slipway.dev/v1beta2","kind":"HostMachineTemplate","metadata":{"name":"a"},"spec":{"template":{"spec":{"hostSelector":{"matchLabels":{"disk":"ssd"}}}}}}`
	kubeadmTemplate = `{"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta2","kind":"KubeadmConfigTemplate","metadata":{"name":"a"},"spec":{"template":{"spec":{"ntp":{"servers":["a"]}}}}}`
)

func ofVersion(version string, mutate ...func(*clusterv1.MachineSpec)) state {
	s := state{machine: clusterv1.MachineSpec{Version: version, ClusterName: "c1"}, infrastructure: []byte(hostTemplate), bootstrap: []byte(kubeadmTemplate)}
	for _, m := range mutate {
		m(&s.machine)
	}
	return s
}

// Of all that can differ the version alone is done in place; what cannot be read differs.
func TestDifference(t *testing.T) {
	replace := func(s []byte, from, to string) []byte {
		if !strings.Contains(string(s), from) {
			t.Fatalf("%s has no %s", s, from)
		}
		return []byte(strings.ReplaceAll(string(s), from, to))
	}
	for name, c := range map[string]struct {
		change  func(current, desired *state)
		version string
		no      string // part of what is in the way; empty when nothing is
		asks    string // the patch of what is asked of hosts
	}{
		"patch version":      {version: "v1.36.3"},
		"minor version":      {change: func(current, _ *state) { current.machine.Version = "v1.35.4" }, version: "v1.36.3"},
		"nothing":            {change: func(current, _ *state) { current.machine.Version = "v1.36.3" }},
		"two minor versions": {change: func(current, _ *state) { current.machine.Version = "v1.34.9" }, version: "v1.36.3", no: "more than one minor version"},
		"major version":      {change: func(_, desired *state) { desired.machine.Version = "v2.0.0" }, version: "v2.0.0", no: "more than one minor version"},
		"down":               {change: func(current, _ *state) { current.machine.Version = "v1.36.4" }, version: "v1.36.3", no: "v1.36.4 down to v1.36.3"},
		"from a pre-release": {change: func(current, _ *state) { current.machine.Version = "v1.36.3-rc.0" }, version: "v1.36.3"},
		"no version before":  {change: func(current, _ *state) { current.machine.Version = "" }, version: "v1.36.3", no: `version "" is none of Kubernetes`},
		"bad version":        {change: func(_, desired *state) { desired.machine.Version = "latest" }, version: "latest", no: `version "latest" is none of Kubernetes`},
		"no version after":   {change: func(_, desired *state) { desired.machine.Version = "" }, no: `version "" is none of Kubernetes`},
		"failure domain":     {change: func(_, desired *state) { desired.machine.FailureDomain = "b" }, version: "v1.36.3", no: "spec.failureDomain"},
		"names of templates and what is written without a rollout": {version: "v1.36.3", change: func(current, desired *state) {
			desired.machine.Deletion.NodeDrainTimeoutSeconds, desired.machine.MinReadySeconds = ptr.To[int32](3), ptr.To[int32](4)
			desired.machine.Taints = []clusterv1.MachineTaint{{Key: "a"}}
			desired.machine.InfrastructureRef.Name, desired.machine.Bootstrap.ConfigRef.Name = "b", "b"
			current.machine.ProviderID = "slipway://a/b/c"
			desired.infrastructure = replace(desired.infrastructure, `"name":"a"`, `"name":"b"`)
			desired.bootstrap = replace(desired.bootstrap, `"name":"a"`, `"name":"b"`)
		}},
		"API version of a template": {version: "v1.36.3", change: func(_, desired *state) {
			desired.infrastructure = replace(desired.infrastructure, "slipway.dev/v1beta2", "slipway.dev/v1beta1")
		}},
		"host selector": {version: "v1.36.3", asks: `"disk":"hdd"`, change: func(_, desired *state) {
			desired.infrastructure = replace(desired.infrastructure, "ssd", "hdd")
		}},
		"host selector alone": {asks: `"hostSelector":{"matchLabels":{"disk":null,"tier":"a"}}`, change: func(current, desired *state) {
			current.machine.Version = desired.machine.Version
			desired.infrastructure = replace(desired.infrastructure, `"disk":"ssd"`, `"tier":"a"`)
		}},
		"no host selector": {version: "v1.36.3", asks: `"hostSelector":null`, change: func(_, desired *state) {
			desired.infrastructure = replace(desired.infrastructure, `{"hostSelector":{"matchLabels":{"disk":"ssd"}}}`, `{}`)
		}},
		"host selector of what had no spec": {version: "v1.36.3", asks: `{"spec":{"template":{"spec":{"hostSelector"`, change: func(current, _ *state) {
			current.infrastructure = replace(current.infrastructure, `,"spec":{"template":{"spec":{"hostSelector":{"matchLabels":{"disk":"ssd"}}}}}`, ``)
		}},
		"capacity and preferences": {version: "v1.36.3", asks: `{"minCapacity":{"cpu":"2"},"preferred":[{"hostSelector":{},"weight":1}]}`, change: func(_, desired *state) {
			desired.infrastructure = replace(desired.infrastructure, `"hostSelector":{"match`, `"minCapacity":{"cpu":"2"},"preferred":[{"hostSelector":{},"weight":1}],"hostSelector":{"match`)
		}},
		"host selector that is none": {version: "v1.36.3", no: "the infrastructure cannot be read", change: func(_, desired *state) {
			desired.infrastructure = replace(desired.infrastructure, `{"matchLabels":{"disk":"ssd"}}`, `{"matchExpressions":[{"key":"a","operator":"Near"}]}`)
		}},
		"host selector and more": {version: "v1.36.3", no: "the HostMachineTemplate changes", change: func(_, desired *state) {
			desired.infrastructure = replace(desired.infrastructure, `"hostSelector":{"matchLabels":{"disk":"ssd"}}`, `"resetPolicy":"Full"`)
		}},
		"a field nobody knows": {version: "v1.36.3", no: "the HostMachineTemplate changes", change: func(_, desired *state) {
			desired.infrastructure = replace(desired.infrastructure, `"hostSelector"`, `"future":1,"hostSelector"`)
		}},
		"version in the template": {version: "v1.36.3", no: "spec.template.spec.version of the HostMachineTemplate", change: func(current, desired *state) {
			for _, s := range []*state{current, desired} {
				s.infrastructure = replace(s.infrastructure, `"hostSelector"`, `"version":"v1.36.2","hostSelector"`)
			}
		}},
		"another provider": {version: "v1.36.3", no: "DockerMachineTemplate.infrastructure.cluster.x-k8s.io", change: func(current, desired *state) {
			for _, s := range []*state{current, desired} {
				s.infrastructure = replace(replace(s.infrastructure, "slipway.dev", "cluster.x-k8s.io"), "HostMachineTemplate", "DockerMachineTemplate")
			}
		}},
		"from another provider": {version: "v1.36.3", no: "the HostMachineTemplate changes", change: func(current, _ *state) {
			current.infrastructure = replace(replace(current.infrastructure, "slipway.dev", "cluster.x-k8s.io"), "HostMachineTemplate", "DockerMachineTemplate")
		}},
		"no infrastructure":              {version: "v1.36.3", no: "the infrastructure cannot be read: as it shall be: there is none", change: func(_, desired *state) { desired.infrastructure = nil }},
		"infrastructure that is no JSON": {version: "v1.36.3", no: "the infrastructure cannot be read", change: func(current, _ *state) { current.infrastructure = []byte("{") }},
		"infrastructure without a kind": {version: "v1.36.3", no: "it has no kind", change: func(_, desired *state) {
			desired.infrastructure = []byte(`{"apiVersion":"infrastructure.slipway.dev/v1beta2"}`)
		}},
		"spec that is no object": {version: "v1.36.3", no: "its spec.template.spec is no object", change: func(current, desired *state) {
			current.infrastructure = []byte(`{"apiVersion":"infrastructure.slipway.dev/v1beta2","kind":"HostMachineTemplate","spec":{"template":3}}`)
			desired.infrastructure = current.infrastructure
		}},
		"bootstrap":            {version: "v1.36.3", no: "the KubeadmConfigTemplate changes", change: func(_, desired *state) { desired.bootstrap = replace(desired.bootstrap, `"a"]`, `"b"]`) }},
		"bootstrap taken away": {version: "v1.36.3", no: "the bootstrap configuration cannot be read", change: func(_, desired *state) { desired.bootstrap = nil }},
		"no bootstrap at all":  {version: "v1.36.3", no: "not made from a bootstrap configuration", change: func(current, desired *state) { current.bootstrap, desired.bootstrap = nil, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			current, desired := ofVersion("v1.36.2"), ofVersion("v1.36.3")
			if c.change != nil {
				c.change(&current, &desired)
			}
			got, no := difference(current, desired, ofMachineSet)
			if (c.no == "") != (len(no) == 0) || !strings.Contains(no.String(), c.no) {
				t.Errorf("in the way is %q, want %q", no, c.no)
			}
			if got.version != c.version {
				t.Errorf("version %q, want %q", got.version, c.version)
			}
			if patch := string(got.infrastructure.Patch); (c.asks == "") != (patch == "") || !strings.Contains(patch, c.asks) || (got.asks == nil) != (patch == "") {
				t.Errorf("what is asked of hosts is patched by %q, want %q", patch, c.asks)
			}
		})
	}
}

// The patch does to the current object what the change asks, and no more.
func TestVersionPatch(t *testing.T) {
	for want, path := range map[string]specPath{`{"spec":{"version":"v1.36.3"}}`: ofMachine, `{"spec":{"template":{"spec":{"version":"v1.36.3"}}}}`: ofMachineSet} {
		if got := versionPatch("v1.36.3", path); string(got.Patch) != want || !json.Valid(got.Patch) {
			t.Errorf("the patch is %s, want %s", got.Patch, want)
		}
	}
	if patch := versionPatch("", ofMachine); patch.IsDefined() {
		t.Errorf("nothing changes, and the patch is %s", patch.Patch)
	}
}
