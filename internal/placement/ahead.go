package placement

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// maxToCome bounds what the manager calculates with: users write replicas.
const maxToCome = 9

// Ahead returns the requests of the machines that the control plane of a Cluster lacks: of those
// that wait for a host, and of those that its provider has yet to make. Hosts are reserved for them
// among the workers of the Cluster. There are none when an annotation of the Cluster says so, while the
// control plane is being deleted, which waits for the workers to go, and on other infrastructure.
func Ahead(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster) ([]Request, error) {
	if cluster == nil || !cluster.DeletionTimestamp.IsZero() || cluster.Annotations[infrav1.ControlPlaneFirstAnnotation] == "false" {
		return nil, nil
	}
	plane, err := readControlPlane(ctx, c, cluster)
	if err != nil || plane.leaving {
		return nil, err
	}
	machines := &clusterv1.MachineList{}
	err = c.List(ctx, machines, client.InNamespace(cluster.Namespace), client.UnsafeDisableDeepCopy,
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}, client.HasLabels{clusterv1.MachineControlPlaneLabel})
	if err != nil {
		return nil, fmt.Errorf("list the machines of the control plane: %w", err)
	}
	var ahead []Request
	staying := 0
	for i := range machines.Items {
		machine := &machines.Items[i]
		if !machine.DeletionTimestamp.IsZero() {
			continue
		}
		staying++
		m, err := hostMachineOf(ctx, c, machine)
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue
		}
		plane.seen(machine, m)
		request, waits, err := waitingMachine(ctx, c, machine, m, cluster)
		if err != nil {
			return nil, err
		}
		if waits {
			ahead = append(ahead, request)
		}
	}
	toCome := min(plane.replicas-staying, maxToCome)
	if toCome <= 0 {
		return ahead, nil
	}
	request, found, err := plane.request(ctx, c, cluster)
	if err != nil || !found {
		return ahead, err
	}
	for range toCome {
		ahead = append(ahead, request)
	}
	return ahead, nil
}

// hostMachineOf is the HostMachine of a Machine; nil while it is not there, and on other
// infrastructure.
func hostMachineOf(ctx context.Context, c client.Reader, machine *clusterv1.Machine) (*infrav1.HostMachine, error) {
	ref := machine.Spec.InfrastructureRef
	if ref.Kind != "HostMachine" || ref.APIGroup != infrav1.GroupVersion.Group {
		return nil, nil
	}
	m := &infrav1.HostMachine{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: ref.Name}, m); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("get HostMachine %s: %w", ref.Name, err)
	}
	return m, nil
}

// waitingMachine returns the request of a machine of a control plane that waits for a host; false
// for one that has a host. Cluster API may not have set the owner of its HostMachine yet.
func waitingMachine(ctx context.Context, c client.Reader, machine *clusterv1.Machine, m *infrav1.HostMachine, cluster *clusterv1.Cluster) (Request, bool, error) {
	if !lacksHost(m) || annotations.HasPaused(m) {
		return Request{}, false, nil
	}
	request, err := RequestFor(ctx, c, m, ownerMachine(machine), cluster)
	return request, err == nil, err
}

// controlPlane is what counts of the object that makes the machines of a control plane.
type controlPlane struct {
	// replicas are the machines that it is to have; 0 where it makes none, or none on hosts.
	replicas int
	// version of Kubernetes, and the HostMachineTemplate of its machines.
	version, template string
	// leaving is true while it is being deleted.
	leaving bool
	// unread is true for one that the manager may not read. The next machine is expected to
	// be like the newest one, model, and to have its version.
	unread bool
	model  *infrav1.HostMachine
	newest metav1.Time
}

// seen takes the newest machine for the model of the next one, if there is no template.
func (p *controlPlane) seen(machine *clusterv1.Machine, m *infrav1.HostMachine) {
	if p.unread && (p.model == nil || p.newest.Before(&machine.CreationTimestamp)) {
		p.model, p.newest, p.version = m, machine.CreationTimestamp, machine.Spec.Version
	}
}

// unreadPlane is what Cluster API says of a control plane in the status of its Cluster.
func unreadPlane(cluster *clusterv1.Cluster) controlPlane {
	plane := controlPlane{unread: true}
	if status := cluster.Status.ControlPlane; status != nil {
		plane.replicas = int(ptr.Deref(status.DesiredReplicas, 0))
	}
	return plane
}

// readControlPlane reads the object of any control-plane provider by the fields of Cluster API's
// contract. One that is paused makes no machines. Of one in an API group that the manager may not
// read, the Cluster says how many machines it is to have.
func readControlPlane(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster) (controlPlane, error) {
	ref := cluster.Spec.ControlPlaneRef
	kind, err := controlPlaneKind(c, ref)
	switch {
	case err != nil || !ref.IsDefined():
		return controlPlane{}, err
	case kind.Empty():
		return unreadPlane(cluster), nil
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	err = c.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: ref.Name}, o)
	switch {
	case meta.IsNoMatchError(err), apierrors.IsForbidden(err):
		return unreadPlane(cluster), nil
	case apierrors.IsNotFound(err):
		return controlPlane{}, nil
	case err != nil:
		return controlPlane{}, fmt.Errorf("get %s %s: %w", ref.Kind, ref.Name, err)
	}
	plane := controlPlane{leaving: !o.GetDeletionTimestamp().IsZero(), template: hostMachineTemplate(o)}
	plane.version, _, _ = unstructured.NestedString(o.Object, "spec", "version")
	if replicas, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); plane.template != "" && !annotations.HasPaused(o) {
		plane.replicas = int(replicas)
	}
	return plane, nil
}

// Mapper is a reader that knows the versions of kinds, as clients do.
type Mapper interface{ RESTMapper() meta.RESTMapper }

// controlPlaneKind is the kind with its version, which the reference does not have; empty where
// there is none or nobody knows it.
func controlPlaneKind(c client.Reader, ref clusterv1.ContractVersionedObjectReference) (schema.GroupVersionKind, error) {
	kind := schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}
	if known := controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"); kind == known.GroupKind() {
		return known, nil
	}
	mapper, ok := c.(Mapper)
	if !ref.IsDefined() || !ok {
		return schema.GroupVersionKind{}, nil
	}
	mapping, err := mapper.RESTMapper().RESTMapping(kind)
	if meta.IsNoMatchError(err) {
		return schema.GroupVersionKind{}, nil
	}
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("look up the kind %s: %w", kind, err)
	}
	return mapping.GroupVersionKind, nil
}

// hostMachineTemplate is the name of the HostMachineTemplate of a control plane, in contract v1beta2
// or v1beta1; empty when its machines are on other infrastructure, or when it makes none.
func hostMachineTemplate(plane *unstructured.Unstructured) string {
	for _, path := range [][]string{{"spec", "machineTemplate", "spec", "infrastructureRef"}, {"spec", "machineTemplate", "infrastructureRef"}} {
		ref, _, _ := unstructured.NestedStringMap(plane.Object, path...)
		version, _ := schema.ParseGroupVersion(ref["apiVersion"])
		if ref["kind"] == "HostMachineTemplate" && (ref["apiGroup"] == infrav1.GroupVersion.Group || version.Group == infrav1.GroupVersion.Group) {
			return ref["name"]
		}
	}
	return ""
}

// request has the requirements of the control plane's next machine, in one of the failure domains
// that its provider may choose; false while neither template nor model is there.
func (p controlPlane) request(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster) (Request, bool, error) {
	var wish infrav1.Placement
	switch {
	case p.model != nil:
		wish = p.model.Spec.Placement
	case p.unread:
		return Request{}, false, nil
	default:
		template := &infrav1.HostMachineTemplate{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: p.template}, template); apierrors.IsNotFound(err) {
			return Request{}, false, nil
		} else if err != nil {
			return Request{}, false, fmt.Errorf("get HostMachineTemplate %s: %w", p.template, err)
		}
		wish = template.Spec.Template.Spec.Placement
	}
	owner := &Owner{Version: p.version, ControlPlane: true}
	for _, domain := range cluster.Status.FailureDomains {
		if ptr.Deref(domain.ControlPlane, false) {
			owner.FailureDomains = append(owner.FailureDomains, domain.Name)
		}
	}
	m := &infrav1.HostMachine{Spec: infrav1.HostMachineSpec{Placement: wish}}
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster.Name}
	request, err := RequestFor(ctx, c, m, owner, cluster)
	return request, err == nil, err
}
