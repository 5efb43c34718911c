package up

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"
)

// Error is a fault in the user's file: where it is and what to do.
type Error struct {
	// File as the user named it.
	File string
	// Document is the number of the YAML document, from 1; 0 when it is about the whole file.
	Document int
	// Problem and remedy in one sentence.
	Problem string
}

func (e *Error) Error() string {
	if e.Document == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Problem)
	}
	return fmt.Sprintf("%s: document %d: %s", e.File, e.Document, e.Problem)
}

// File is a parsed cluster file.
type File struct {
	// Name as the user gave it.
	Name string
	// Objects in the order of the file.
	Objects []*unstructured.Unstructured
	// Clusters among them.
	Clusters []Cluster
}

// Cluster is a Cluster of the file.
type Cluster struct {
	*unstructured.Unstructured
	// Class is the name of its ClusterClass, empty without a topology.
	Class string
	// ClassNamespace is the ClusterClass's namespace when it is not the Cluster's.
	ClassNamespace string
	// Hosts is how many machines its topology asks for, ControlPlanes how many of
	// them are of the control plane; 0 without a topology.
	Hosts, ControlPlanes int
	// Version is the Kubernetes version of its topology; empty without one.
	Version string
	// document is its number in the file, from 1.
	document int
}

// Parse reads every document of data. An object without a namespace gets
// "default" only when it is a Cluster: the scope of other kinds is not known here.
func Parse(name string, data []byte) (*File, error) {
	f := &File{Name: name}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, &Error{name, n, err.Error()}
		}
		if err := f.add(n, document); err != nil {
			return nil, err
		}
	}
	if len(f.Objects) == 0 {
		return nil, &Error{name, 0, "no object in it; give a Cluster, or leave out -f for the default cluster"}
	}
	return f, nil
}

func (f *File) add(n int, document []byte) error {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(document, &object.Object); err != nil {
		return &Error{f.Name, n, "not a YAML object: " + cause(err)}
	}
	if len(object.Object) == 0 {
		return nil // a comment between two separators
	}
	switch {
	case object.GetAPIVersion() == "":
		return &Error{f.Name, n, "apiVersion is missing"}
	case object.GetKind() == "":
		return &Error{f.Name, n, "kind is missing"}
	case object.GetName() == "":
		return &Error{f.Name, n, fmt.Sprintf("metadata.name of the %s is missing", object.GetKind())}
	}
	f.Objects = append(f.Objects, object)
	gvk := object.GroupVersionKind()
	if gvk.Group != clusterv1.GroupVersion.Group || gvk.Kind != "Cluster" {
		return nil
	}
	if gvk.Version != clusterv1.GroupVersion.Version {
		return &Error{f.Name, n, fmt.Sprintf("apiVersion %s of Cluster %s is not read here; use %s", object.GetAPIVersion(), object.GetName(), clusterv1.GroupVersion)}
	}
	return f.addCluster(n, document, object)
}

func (f *File) addCluster(n int, document []byte, object *unstructured.Unstructured) error {
	var typed clusterv1.Cluster
	if err := yaml.UnmarshalStrict(document, &typed); err != nil {
		return &Error{f.Name, n, fmt.Sprintf("Cluster %s: %s", object.GetName(), cause(err))}
	}
	if object.GetNamespace() == "" {
		object.SetNamespace("default")
	}
	cluster := Cluster{Unstructured: object, document: n}
	if typed.Spec.Topology.IsDefined() {
		cluster.Class = typed.Spec.Topology.ClassRef.Name
		cluster.ClassNamespace = typed.Spec.Topology.ClassRef.Namespace
		cluster.Hosts = hosts(&typed.Spec.Topology)
		cluster.ControlPlanes = count(typed.Spec.Topology.ControlPlane.Replicas)
		cluster.Version = typed.Spec.Topology.Version
	}
	f.Clusters = append(f.Clusters, cluster)
	return nil
}

// cause is what the decoder found, without the layers it found it through.
func cause(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) && mismatch.Field != "" {
		return fmt.Sprintf("%s: want %s, got %s", mismatch.Field, mismatch.Type, mismatch.Value)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// count is a number of replicas. One that is left out is 1, as Cluster API
// defaults it.
func count(replicas *int32) int {
	if replicas == nil {
		return 1
	}
	return int(*replicas)
}

// hosts counts the machines of a topology.
func hosts(t *clusterv1.Topology) int {
	total := count(t.ControlPlane.Replicas)
	for i := range t.Workers.MachinePools {
		total += count(t.Workers.MachinePools[i].Replicas)
	}
	for i := range t.Workers.MachineDeployments {
		total += count(t.Workers.MachineDeployments[i].Replicas)
	}
	return total
}

// Hosts is how many hosts all Clusters of the file need together.
func (f *File) Hosts() int {
	total := 0
	for _, c := range f.Clusters {
		total += c.Hosts
	}
	return total
}

// ControlPlanes is how many of these hosts hold control planes.
func (f *File) ControlPlanes() int {
	total := 0
	for _, c := range f.Clusters {
		total += c.ControlPlanes
	}
	return total
}

// SetControlPlanes gives every Cluster with a topology this number of control
// planes.
func (f *File) SetControlPlanes(replicas int) error {
	for i := range f.Clusters {
		c := &f.Clusters[i]
		if c.ControlPlanes == 0 {
			continue
		}
		if err := unstructured.SetNestedField(c.Object, int64(replicas), "spec", "topology", "controlPlane", "replicas"); err != nil {
			return &Error{f.Name, c.document, fmt.Sprintf("Cluster %s: %v", c.GetName(), err)}
		}
		c.Hosts += replicas - c.ControlPlanes
		c.ControlPlanes = replicas
	}
	return nil
}

// HasClass reports whether the file brings a ClusterClass of this name.
func (f *File) HasClass(namespace, name string) bool {
	for _, o := range f.Objects {
		if o.GetKind() == "ClusterClass" && o.GetName() == name && (o.GetNamespace() == namespace || o.GetNamespace() == "") {
			return true
		}
	}
	return false
}

// SetVersion gives every Cluster with a topology this Kubernetes version.
func (f *File) SetVersion(version string) error {
	for i := range f.Clusters {
		c := &f.Clusters[i]
		if c.Version == "" {
			continue
		}
		if err := unstructured.SetNestedField(c.Object, version, "spec", "topology", "version"); err != nil {
			return &Error{f.Name, c.document, fmt.Sprintf("Cluster %s: %v", c.GetName(), err)}
		}
		c.Version = version
	}
	return nil
}

// CheckVersions refuses a Cluster of a Kubernetes version that the hosts do not
// offer: its machines would wait for a host without end.
func (f *File) CheckVersions(offered []string) error {
	for _, c := range f.Clusters {
		if c.Version == "" || slices.Contains(offered, c.Version) {
			continue
		}
		return &Error{f.Name, c.document, fmt.Sprintf("Cluster %s: spec.topology.version: local hosts do not offer %s; choose one of %s",
			c.GetName(), c.Version, strings.Join(offered, ", "))}
	}
	return nil
}
