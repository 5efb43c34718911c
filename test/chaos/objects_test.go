package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/internal/testenv/versions"
)

const namespace = "default"

// What is watched or broken.
var (
	hostResource         = schema.GroupVersionResource{Group: "infrastructure.slipway.dev", Version: "v1beta2", Resource: "hosts"}
	hostMachineResource  = hostResource.GroupVersion().WithResource("hostmachines")
	hostPoolResource     = hostResource.GroupVersion().WithResource("hostmachinepools")
	clusterResource      = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters"}
	classResource        = clusterResource.GroupVersion().WithResource("clusterclasses")
	machineResource      = clusterResource.GroupVersion().WithResource("machines")
	poolResource         = clusterResource.GroupVersion().WithResource("machinepools")
	deploymentResource   = clusterResource.GroupVersion().WithResource("machinedeployments")
	machineSetResource   = clusterResource.GroupVersion().WithResource("machinesets")
	configResource       = schema.GroupVersionResource{Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2", Resource: "kubeadmconfigtemplates"}
	controlPlaneResource = schema.GroupVersionResource{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Resource: "kubeadmcontrolplanetemplates"}
	secretResource       = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	nodeResource         = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

// watched of the plane. Secrets are not: a history is written to a file.
var watched = []schema.GroupVersionResource{
	hostResource, hostMachineResource, hostPoolResource, clusterResource, machineResource, poolResource, deploymentResource, machineSetResource,
}

// patch is one operation of a JSON patch.
type patch struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func (p *plane) patch(ctx context.Context, resource schema.GroupVersionResource, name string, operations ...patch) error {
	data, err := json.Marshal(operations)
	if err != nil {
		return err
	}
	_, err = p.client.Resource(resource).Namespace(namespace).Patch(ctx, name, types.JSONPatchType, data, metav1.PatchOptions{})
	return err
}

func (p *plane) create(ctx context.Context, resource schema.GroupVersionResource, o *unstructured.Unstructured) error {
	_, err := p.client.Resource(resource).Namespace(namespace).Create(ctx, o, metav1.CreateOptions{})
	return err
}

func (p *plane) createYAML(ctx context.Context, resource schema.GroupVersionResource, text string) error {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		return err
	}
	return p.create(ctx, resource, o)
}

// remove deletes an object that may be gone already.
func (p *plane) remove(ctx context.Context, resource schema.GroupVersionResource, name string) error {
	err := p.client.Resource(resource).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// heldUp is a finalizer that keeps what is deleted.
const heldUp = "slipway.dev/chaos"

// drainHook keeps a Machine that is deleted before its Node is drained.
const drainHook = clusterv1.PreDrainDeleteHookAnnotationPrefix + "/chaos"

// update changes an object, unless it is gone.
func (p *plane) update(ctx context.Context, resource schema.GroupVersionResource, name string, change func(*unstructured.Unstructured)) error {
	objects := p.client.Resource(resource).Namespace(namespace)
	o, err := objects.Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		change(o)
		_, err = objects.Update(ctx, o, metav1.UpdateOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// appendNested adds one more to a list of an object.
func appendNested(o *unstructured.Unstructured, one any, fields ...string) error {
	all, _, err := unstructured.NestedSlice(o.Object, fields...)
	if err != nil {
		return err
	}
	return unstructured.SetNestedSlice(o.Object, append(all, one), fields...)
}

func holdUpAtTheEnd(o *unstructured.Unstructured) {
	if o.GetDeletionTimestamp().IsZero() && !slices.Contains(o.GetFinalizers(), heldUp) {
		o.SetFinalizers(append(o.GetFinalizers(), heldUp))
	}
}

func holdUpBeforeTheDrain(o *unstructured.Unstructured) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[drainHook] = ""
	o.SetAnnotations(annotations)
}

func letGo(o *unstructured.Unstructured) {
	o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == heldUp }))
	annotations := o.GetAnnotations()
	delete(annotations, drainHook)
	o.SetAnnotations(annotations)
}

// names are those of the objects of a resource in the first cluster, without those that
// are being deleted, in order.
func (p *plane) names(ctx context.Context, resource schema.GroupVersionResource, selector string) ([]string, error) {
	list, err := p.client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: strings.Trim("cluster.x-k8s.io/cluster-name=local,"+selector, ","),
	})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, o := range list.Items {
		if o.GetDeletionTimestamp().IsZero() {
			names = append(names, o.GetName())
		}
	}
	slices.Sort(names)
	return names, nil
}

// workers is the selector of what is not of the control plane, poolMembers of the pool.
const (
	workers     = "!cluster.x-k8s.io/control-plane"
	poolMembers = "cluster.x-k8s.io/pool-name"
)

// removeOne deletes one of what is selected, if there is any.
func (p *plane) removeOne(ctx context.Context, resource schema.GroupVersionResource, selector string, pick int) error {
	names, err := p.names(ctx, resource, selector)
	if err != nil || len(names) == 0 {
		return err
	}
	return p.remove(ctx, resource, names[pick%len(names)])
}

// cluster is a manifest; without workers it is one of a control plane alone.
func cluster(name, address, workers string) string {
	return fmt.Sprintf(`apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: %s, namespace: %s, labels: {slipway.dev/cni: flannel}}
spec:
  clusterNetwork: {pods: {cidrBlocks: [10.244.0.0/16]}, services: {cidrBlocks: [10.96.0.0/16]}, serviceDomain: cluster.local}
  topology:
    classRef: {name: slipway-local}
    version: %s
    controlPlane: {replicas: 1}
    %s
    variables: [{name: controlPlaneEndpointHost, value: %s}]
`, name, namespace, versions.Plane().Version, workers, address)
}

const firstWorkers = `workers:
      machinePools: [{class: default-worker, name: pool, replicas: 1}]
      machineDeployments: [{class: default-worker, name: md, replicas: 1}]`
