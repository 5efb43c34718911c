package judge

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// objects of one kind by name. All of them are in one namespace.
type objects[T client.Object] map[string]T

// world is all there is after the entries so far.
type world struct {
	hosts        objects[*infrav1.Host]
	hostMachines objects[*infrav1.HostMachine]
	hostPools    objects[*infrav1.HostMachinePool]
	clusters     objects[*clusterv1.Cluster]
	machines     objects[*clusterv1.Machine]
	pools        objects[*clusterv1.MachinePool]
	deployments  objects[*clusterv1.MachineDeployment]
	machineSets  objects[*clusterv1.MachineSet]
	// nodes by cluster.
	nodes map[string]objects[*corev1.Node]
	// unseen are the resources of each cluster whose watch is broken.
	unseen map[string]map[string]bool
}

func newWorld() *world {
	return &world{
		hosts: objects[*infrav1.Host]{}, hostMachines: objects[*infrav1.HostMachine]{}, hostPools: objects[*infrav1.HostMachinePool]{},
		clusters: objects[*clusterv1.Cluster]{}, machines: objects[*clusterv1.Machine]{}, pools: objects[*clusterv1.MachinePool]{},
		deployments: objects[*clusterv1.MachineDeployment]{}, machineSets: objects[*clusterv1.MachineSet]{}, nodes: map[string]objects[*corev1.Node]{}, unseen: map[string]map[string]bool{},
	}
}

// change is an entry and what it changes. before is nil for a new object, after for one
// that is gone; both are nil when the kind concerns nobody.
type change struct {
	Entry
	before, after client.Object
}

// versions are the object of a change before and after it, when it is of type T.
func versions[T client.Object](c change) (before, after T, ok bool) {
	before, was := c.before.(T)
	after, is := c.after.(T)
	return before, after, was || is
}

// apply brings the world to where it is after an entry.
func (w *world) apply(e Entry) (change, error) {
	c := change{Entry: e}
	switch e.Verb {
	case Lost:
		if w.unseen[e.Cluster] == nil {
			w.unseen[e.Cluster] = map[string]bool{}
		}
		w.unseen[e.Cluster][e.Text] = true
		return c, nil
	case Found:
		delete(w.unseen[e.Cluster], e.Text)
		return c, nil
	case Injected, Undone:
		return c, nil
	case Written, Deleted:
	}
	var err error
	switch e.Kind() {
	case "Host":
		err = put(w.hosts, e, &infrav1.Host{}, &c)
	case "HostMachine":
		err = put(w.hostMachines, e, &infrav1.HostMachine{}, &c)
	case "HostMachinePool":
		err = put(w.hostPools, e, &infrav1.HostMachinePool{}, &c)
	case "Machine":
		err = put(w.machines, e, &clusterv1.Machine{}, &c)
	case "MachinePool":
		err = put(w.pools, e, &clusterv1.MachinePool{}, &c)
	case "MachineSet":
		err = put(w.machineSets, e, &clusterv1.MachineSet{}, &c)
	case "MachineDeployment":
		err = put(w.deployments, e, &clusterv1.MachineDeployment{}, &c)
	case "Cluster":
		if err = put(w.clusters, e, &clusterv1.Cluster{}, &c); c.after == nil {
			// Its Nodes go with it, and nobody tells.
			delete(w.nodes, e.Name())
		}
	case "Node":
		if w.nodes[e.Cluster] == nil {
			w.nodes[e.Cluster] = objects[*corev1.Node]{}
		}
		err = put(w.nodes[e.Cluster], e, &corev1.Node{}, &c)
	}
	return c, err
}

// put is one version of an object, whose fields become those of into.
func put[T client.Object](all objects[T], e Entry, into T, c *change) error {
	if before, ok := all[e.Name()]; ok {
		c.before = before
	}
	if e.Verb == Deleted {
		delete(all, e.Name())
		return nil
	}
	if err := decode(e.Object, into); err != nil {
		return err
	}
	all[e.Name()] = into
	c.after = into
	return nil
}

func decode(from *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, into); err != nil {
		return fmt.Errorf("read %s %s: %w", from.GetKind(), from.GetName(), err)
	}
	return nil
}

// lost says whether a cluster does not answer.
func (w *world) lost(cluster string) bool { return len(w.unseen[cluster]) > 0 }

// hostOf is the name of the host that a providerID names; empty without one.
func hostOf(providerID string) string {
	_, name, _, ok := host.ParseProviderID(providerID)
	if !ok {
		return ""
	}
	return name
}

// machineOf is the HostMachine of a providerID.
func (w *world) machineOf(providerID string) *infrav1.HostMachine {
	for _, m := range w.hostMachines {
		if m.Spec.ProviderID == providerID {
			return m
		}
	}
	return nil
}
