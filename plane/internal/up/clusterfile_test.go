package up

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/templates"
)

const cluster = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: a}
spec:
  topology:
    classRef: {name: c}
    version: v1.36.3
    controlPlane: {replicas: 3}
    workers:
      machinePools: [{class: w, name: p, replicas: 2}]
      machineDeployments: [{class: w, name: d}]
`

func TestParseCountsHosts(t *testing.T) {
	f, err := Parse("x.yaml", []byte("# comment\n---\n"+cluster+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Hosts(); got != 6 {
		t.Errorf("Hosts() = %d, want 3 control planes, 2 of the pool, 1 by default of the deployment", got)
	}
	if len(f.Objects) != 2 || f.Clusters[0].Class != "c" || f.Clusters[0].GetNamespace() != "default" {
		t.Errorf("got %d objects, class %q, namespace %q", len(f.Objects), f.Clusters[0].Class, f.Clusters[0].GetNamespace())
	}
}

func TestDefaultClusterParses(t *testing.T) {
	data, err := templates.Local.ReadFile("local/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse("cluster.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	if f.Hosts() != 3 || f.ControlPlanes() != 1 {
		t.Errorf("Hosts() = %d, want 3; ControlPlanes() = %d, want 1", f.Hosts(), f.ControlPlanes())
	}
	if err := f.SetControlPlanes(3); err != nil {
		t.Fatal(err)
	}
	replicas, _, err := unstructured.NestedInt64(f.Clusters[0].Object, "spec", "topology", "controlPlane", "replicas")
	if f.Hosts() != 5 || f.ControlPlanes() != 3 || replicas != 3 || err != nil {
		t.Errorf("of three control planes: Hosts() = %d, ControlPlanes() = %d, replicas %d: %v", f.Hosts(), f.ControlPlanes(), replicas, err)
	}
}

func TestParseNamesTheFault(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"not yaml":         {"a: [", "document 1: not a YAML object"},
		"a list":           {"- a\n- b\n", "document 1: not a YAML object"},
		"empty":            {"# nothing\n", "no object in it"},
		"no kind":          {"apiVersion: v1\nmetadata: {name: x}\n", "kind is missing"},
		"no name":          {"apiVersion: v1\nkind: ConfigMap\n", "metadata.name of the ConfigMap is missing"},
		"unknown field":    {strings.Replace(cluster, "classRef", "classref2", 1), `Cluster a: unknown field "classref2"`},
		"old version":      {strings.Replace(cluster, "v1beta2", "v1beta1", 1), "use cluster.x-k8s.io/v1beta2"},
		"second document":  {cluster + "---\nkind: X\n", "document 2: apiVersion is missing"},
		"replicas no int":  {strings.Replace(cluster, "replicas: 3", "replicas: three", 1), "Cluster a: spec.topology.controlPlane.replicas: want int32, got string"},
		"binary":           {"\x00\x01\x02", "document 1"},
		"topology no list": {strings.Replace(cluster, "[{class: w, name: p, replicas: 2}]", "7", 1), "Cluster a"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("x.yaml", []byte(tc.in))
			var fault *Error
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "x.yaml: ") {
				t.Errorf("got %v, want an *Error that contains %q", err, tc.want)
			}
		})
	}
}

func TestCheckVersions(t *testing.T) {
	offered := []string{"v1.35.4", "v1.36.3"}
	f, err := Parse("x.yaml", []byte("kind: ConfigMap\napiVersion: v1\nmetadata: {name: m}\n---\n"+cluster))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.CheckVersions(offered); err != nil {
		t.Error(err)
	}
	if err := f.SetVersion("v1.34.1"); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedString(f.Objects[1].Object, "spec", "topology", "version"); got != "v1.34.1" {
		t.Errorf("the Cluster has version %q after SetVersion", got)
	}
	var fault *Error
	err = f.CheckVersions(offered)
	if !errors.As(err, &fault) || fault.Document != 2 {
		t.Fatalf("got %v, want an *Error about document 2", err)
	}
	for _, want := range []string{"spec.topology.version", "v1.34.1", "v1.35.4, v1.36.3"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	bare := &File{Clusters: []Cluster{{}}}
	if err := bare.CheckVersions(offered); err != nil {
		t.Errorf("a Cluster without a topology: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(cluster))
	f.Add([]byte("---\n---\n"))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = Parse("x.yaml", data) })
}
