package inplace

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/placement"
)

// state is one side of a change: a Machine with the objects it is made from, or a
// MachineSet's template with its templates.
type state struct {
	machine clusterv1.MachineSpec
	// infrastructure and bootstrap are JSON; bootstrap is empty where somebody provides the
	// bootstrap data.
	infrastructure, bootstrap []byte
}

// specPath leads to what of the objects counts.
type specPath []string

var (
	ofMachine    = specPath{"spec"}
	ofMachineSet = specPath{"spec", "template", "spec"}
)

// cannot says why a change cannot be done in place, for each thing that is in the way.
type cannot []string

func (c cannot) String() string { return strings.Join(c, "; ") }

// change is what can be done in place.
type change struct {
	// version to upgrade to; empty when it is the same.
	version string
	// infrastructure is the patch of the requirements on hosts; undefined when they are equal.
	infrastructure hooksv1.Patch
	// asks are the new requirements on hosts; nil when they are equal.
	asks *placement.Requirements
}

// difference compares two states. It returns what changes, and what of it cannot be done in
// place. Only what is known to be equal is passed over: whatever cannot be read is in the way.
func difference(current, desired state, path specPath) (c change, no cannot) {
	if !equality.Semantic.DeepEqual(compared(current.machine), compared(desired.machine)) {
		no = append(no, "more of the Machine changes than its version: "+changed(compared(current.machine), compared(desired.machine)))
	}
	infrastructure, err := compareInfrastructure(current.infrastructure, desired.infrastructure, path, &c)
	switch {
	case err != nil:
		no = append(no, fmt.Sprintf("the infrastructure cannot be read: %v", err))
	case !infrastructure.ofSlipway():
		no = append(no, fmt.Sprintf("the infrastructure is a %s, which this provider does not manage", infrastructure.kind))
	case !infrastructure.same:
		no = append(no, fmt.Sprintf("the %s changes", infrastructure.kind.Kind))
	case infrastructure.version != "" && len(path) == len(ofMachineSet):
		no = append(no, fmt.Sprintf("spec.template.spec.version of the %s fixes the version", infrastructure.kind.Kind))
	}
	bootstrap, err := sameObject(current.bootstrap, desired.bootstrap, path)
	switch {
	case len(current.bootstrap) == 0 && len(desired.bootstrap) == 0:
		// Cluster API v1.14 takes the bootstrap data of such a Machine for not created,
		// and would never begin.
		no = append(no, "its bootstrap data is not made from a bootstrap configuration")
	case err != nil:
		no = append(no, fmt.Sprintf("the bootstrap configuration cannot be read: %v", err))
	case !bootstrap.same:
		no = append(no, fmt.Sprintf("the %s changes", bootstrap.kind.Kind))
	}
	if current.machine.Version == desired.machine.Version {
		return c, no
	}
	if reason := notUpgradable(current.machine.Version, desired.machine.Version); reason != "" {
		no = append(no, reason)
	}
	c.version = desired.machine.Version
	return c, no
}

// asked are the fields of a HostMachine that count when a host is chosen. A machine whose host
// satisfies them is not replaced for them.
var asked = []string{"hostSelector", "minCapacity", "preferred"}

// compareInfrastructure compares two HostMachines, or their templates. Their requirements on hosts
// may differ, and are noted.
func compareInfrastructure(current, desired []byte, path specPath, c *change) (comparison, error) {
	from, errFrom := readObject(current, path)
	to, errTo := readObject(desired, path)
	if errFrom != nil || errTo != nil || !reflect.DeepEqual(without(from.spec), without(to.spec)) || reflect.DeepEqual(from.spec, to.spec) {
		return sameObject(current, desired, path)
	}
	patch, followed, err := follow(current, to.spec, path)
	if err != nil {
		return comparison{}, err
	}
	asks, err := requirementsOf(to.spec)
	if err != nil {
		return comparison{}, err
	}
	c.infrastructure, c.asks = patch, asks
	return sameObject(followed, desired, path)
}

// without returns a spec without its requirements on hosts.
func without(spec map[string]any) map[string]any {
	rest := maps.Clone(spec)
	for _, name := range asked {
		delete(rest, name)
	}
	return rest
}

// follow returns the patch that gives an object the requirements of a spec, and its result.
func follow(current []byte, spec map[string]any, path specPath) (hooksv1.Patch, []byte, error) {
	o, err := decode(current)
	if err != nil {
		return hooksv1.Patch{}, nil, err
	}
	for _, name := range asked {
		at := append(slices.Clone(path), name)
		if value, there := spec[name]; !there {
			unstructured.RemoveNestedField(o, at...)
		} else if err := unstructured.SetNestedField(o, value, at...); err != nil {
			return hooksv1.Patch{}, nil, err
		}
	}
	followed, err := json.Marshal(o)
	if err != nil {
		return hooksv1.Patch{}, nil, err
	}
	patch, err := jsonpatch.CreateMergePatch(current, followed)
	return hooksv1.Patch{PatchType: hooksv1.JSONMergePatchType, Patch: patch}, followed, err
}

// requirementsOf returns the requirements of a spec on hosts.
func requirementsOf(spec map[string]any) (*placement.Requirements, error) {
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	request := placement.Request{}
	if err := json.Unmarshal(data, &request.Placement); err != nil {
		return nil, err
	}
	return placement.Parse(request)
}

// compared is what of a Machine counts besides its version: without what Cluster API
// itself leaves out, because it writes it without a rollout or compares what it refers to.
func compared(spec clusterv1.MachineSpec) clusterv1.MachineSpec {
	spec.Version, spec.ClusterName, spec.ProviderID = "", "", ""
	spec.Bootstrap, spec.InfrastructureRef = clusterv1.Bootstrap{}, clusterv1.ContractVersionedObjectReference{}
	spec.MinReadySeconds, spec.ReadinessGates, spec.Taints = nil, nil, nil
	spec.Deletion.NodeDrainTimeoutSeconds, spec.Deletion.NodeVolumeDetachTimeoutSeconds, spec.Deletion.NodeDeletionTimeoutSeconds = nil, nil, nil
	return spec
}

// changed names the fields of a Machine that differ.
func changed(current, desired clusterv1.MachineSpec) string {
	var fields []string
	a, b := reflect.ValueOf(current), reflect.ValueOf(desired)
	for i := range a.NumField() {
		if !equality.Semantic.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
			fields = append(fields, "spec."+name)
		}
	}
	return strings.Join(fields, ", ")
}

// notUpgradable says why kubeadm would not bring a node from one version to another; empty
// when it would.
func notUpgradable(from, to string) string {
	current, err := semver.ParseTolerant(from)
	if err != nil {
		return fmt.Sprintf("version %q is none of Kubernetes", from)
	}
	desired, err := semver.ParseTolerant(to)
	if err != nil {
		return fmt.Sprintf("version %q is none of Kubernetes", to)
	}
	switch {
	case desired.LT(current):
		return fmt.Sprintf("a host is not brought from %s down to %s", from, to)
	case desired.Major != current.Major || desired.Minor > current.Minor+1:
		return fmt.Sprintf("from %s to %s is more than one minor version", from, to)
	}
	return ""
}

// comparison of an object that Cluster API sends twice.
type comparison struct {
	kind schema.GroupKind
	same bool
	// version is that of a HostMachine or its template.
	version string
}

func (c comparison) ofSlipway() bool {
	return c.kind.Group == infrav1.GroupVersion.Group && strings.HasPrefix(c.kind.Kind, "HostMachine")
}

func sameObject(current, desired []byte, path specPath) (comparison, error) {
	a, err := readObject(current, path)
	if err != nil {
		return comparison{}, fmt.Errorf("as it is: %w", err)
	}
	b, err := readObject(desired, path)
	if err != nil {
		return comparison{}, fmt.Errorf("as it shall be: %w", err)
	}
	version, _ := b.spec["version"].(string)
	return comparison{kind: b.kind, same: a.kind == b.kind && reflect.DeepEqual(a.spec, b.spec), version: version}, nil
}

var (
	errNone   = errors.New("there is none")
	errNoKind = errors.New("it has no kind")
)

type object struct {
	kind schema.GroupKind
	spec map[string]any
}

// readObject reads what of an object counts. One without that part has an empty one, as
// for the API server.
func readObject(data []byte, path specPath) (object, error) {
	var o struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	content, err := decode(data)
	if err != nil {
		return object{}, err
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return object{}, err
	}
	version, err := schema.ParseGroupVersion(o.APIVersion)
	if err != nil {
		return object{}, err
	}
	if o.Kind == "" {
		return object{}, errNoKind
	}
	for _, name := range path {
		part, there := content[name]
		if !there || part == nil {
			content = nil
			continue
		}
		next, ok := part.(map[string]any)
		if !ok {
			return object{}, fmt.Errorf("its %s is no object", strings.Join(path, "."))
		}
		content = next
	}
	if content == nil {
		content = map[string]any{}
	}
	return object{kind: version.WithKind(o.Kind).GroupKind(), spec: content}, nil
}
