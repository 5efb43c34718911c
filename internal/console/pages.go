package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/console/view"
	"github.com/slipway-dev/slipway/internal/console/watch"
	"github.com/slipway-dev/slipway/internal/status"
)

func (s *server) scope() status.Scope { return status.Scope{Namespace: s.Namespace} }

// keyOf is the object that the path of a page names.
func keyOf(r *http.Request) client.ObjectKey {
	return client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
}

func pageOf(r *http.Request) int {
	page, _ := strconv.Atoi(r.URL.Query().Get("page")) // what is no number is the first
	return page
}

func (s *server) fleet(ctx context.Context, read *watch.Lenient, r *http.Request) (string, any, error) {
	hosts, err := status.Hosts(ctx, read, s.scope())
	query := r.URL.Query()
	return "Fleet", view.FleetOf(hosts, view.FleetFilter{
		Text: query.Get("q"), Phase: query.Get("phase"), Domain: query.Get("domain"), Attention: query.Get("attention") != "", Page: pageOf(r),
	}), err
}

func (s *server) host(ctx context.Context, read *watch.Lenient, r *http.Request) (string, any, error) {
	key := keyOf(r)
	host := &infrav1.Host{}
	if err := read.Get(ctx, key, host); err != nil {
		return "", nil, fmt.Errorf("host %s: %w", key, err)
	}
	machines, events := &clusterv1.MachineList{}, &corev1.EventList{}
	if err := listAll(ctx, read, key.Namespace, machines, events); err != nil {
		return "", nil, err
	}
	about := slices.DeleteFunc(events.Items, func(e corev1.Event) bool {
		return e.InvolvedObject.Kind != "Host" || e.InvolvedObject.Name != key.Name
	})
	return "Host " + key.Name, view.HostOf(host, machineOf(host, machines.Items), about), nil
}

// machineOf is the Machine whose infrastructure has claimed a host, nil when none has.
func machineOf(h *infrav1.Host, machines []clusterv1.Machine) *clusterv1.Machine {
	i := slices.IndexFunc(machines, func(m clusterv1.Machine) bool {
		ref := m.Spec.InfrastructureRef
		return h.Spec.Claim != nil && view.IsOurs(ref, "HostMachine") && ref.Name == h.Spec.Claim.MachineName
	})
	if i < 0 {
		return nil
	}
	return &machines[i]
}

// placement tells why a machine has no host, host by host.
func (s *server) placement(ctx context.Context, read *watch.Lenient, r *http.Request) (string, any, error) {
	key := keyOf(r)
	if err := read.Get(ctx, key, &infrav1.HostMachine{}); err != nil {
		return "", nil, fmt.Errorf("HostMachine %s: %w", key, err)
	}
	p, err := status.Explain(ctx, read, key.Namespace, key.Name)
	return "Hosts for " + key.Name, view.PlacementOf(p, pageOf(r)), err
}

func (s *server) clusters(ctx context.Context, read *watch.Lenient, _ *http.Request) (string, any, error) {
	told, err := status.Collect(ctx, read, s.scope(), nil)
	return "Clusters", told.Clusters, err
}

func (s *server) cluster(ctx context.Context, read *watch.Lenient, r *http.Request) (string, any, error) {
	key := keyOf(r)
	cluster := &clusterv1.Cluster{}
	if err := read.Get(ctx, key, cluster); err != nil {
		return "", nil, fmt.Errorf("cluster %s: %w", key, err)
	}
	told, err := status.Collect(ctx, read, status.Scope{Namespace: key.Namespace}, nil)
	if err != nil {
		return "", nil, err
	}
	i := slices.IndexFunc(told.Clusters, func(c status.Cluster) bool { return c.Name == key.Name })
	if i < 0 {
		return "", nil, apierrors.NewNotFound(clusterv1.GroupVersion.WithResource("clusters").GroupResource(), key.Name)
	}
	objects, err := objectsOf(ctx, read, key.Namespace)
	return "Cluster " + key.Name, view.ClusterOf(cluster, told.Clusters[i], objects, pageOf(r)), err
}

// objectsOf reads what machines there are in a namespace.
func objectsOf(ctx context.Context, read *watch.Lenient, namespace string) (view.Objects, error) {
	machines, hostMachines, hosts, pools := &clusterv1.MachineList{}, &infrav1.HostMachineList{}, &infrav1.HostList{}, &infrav1.HostMachinePoolList{}
	err := listAll(ctx, read, namespace, machines, hostMachines, hosts, pools)
	return view.Objects{Machines: machines.Items, HostMachines: hostMachines.Items, Hosts: hosts.Items, Pools: pools.Items}, err
}

// listAll fills lists; those of all namespaces when it is empty.
func listAll(ctx context.Context, read *watch.Lenient, namespace string, lists ...client.ObjectList) error {
	for _, list := range lists {
		if err := read.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
	}
	return nil
}

func (s *server) pool(ctx context.Context, read *watch.Lenient, r *http.Request) (string, any, error) {
	key := keyOf(r)
	pool := &infrav1.HostMachinePool{}
	if err := read.Get(ctx, key, pool); err != nil {
		return "", nil, fmt.Errorf("HostMachinePool %s: %w", key, err)
	}
	objects, err := objectsOf(ctx, read, key.Namespace)
	if err != nil {
		return "", nil, err
	}
	machinePools := &clusterv1.MachinePoolList{}
	if err := listAll(ctx, read, key.Namespace, machinePools); err != nil {
		return "", nil, err
	}
	return "Pool " + key.Name, view.PoolOf(pool, versionOf(key.Name, machinePools.Items), objects, pageOf(r)), nil
}

// versionOf is the version of the MachinePool of a HostMachinePool; empty without one.
func versionOf(pool string, machinePools []clusterv1.MachinePool) string {
	for i := range machinePools {
		if spec := &machinePools[i].Spec.Template.Spec; view.IsOurs(spec.InfrastructureRef, "HostMachinePool") && spec.InfrastructureRef.Name == pool {
			return spec.Version
		}
	}
	return ""
}

func (s *server) events(ctx context.Context, read *watch.Lenient, r *http.Request) (string, any, error) {
	err := read.Watch(ctx, &corev1.Event{})
	query := r.URL.Query()
	return "Events", s.timeline.Events(view.EventFilter{Text: query.Get("q"), Warnings: query.Get("warnings") != "", Page: pageOf(r)}), err
}

func (s *server) search(ctx context.Context, read *watch.Lenient, r *http.Request) (string, any, error) {
	hosts, err := status.Hosts(ctx, read, s.scope())
	if err != nil {
		return "", nil, err
	}
	clusters, machines, pools, lifecycle := &clusterv1.ClusterList{}, &clusterv1.MachineList{}, &infrav1.HostMachinePoolList{}, &lifecyclev1.LifecycleRunList{}
	err = listAll(ctx, read, s.Namespace, clusters, machines, pools, lifecycle)
	return "Search", view.SearchOf(strings.TrimSpace(r.URL.Query().Get("q")), view.Searched{
		Hosts: hosts, Clusters: clusters.Items, Machines: machines.Items, Pools: pools.Items, Runs: lifecycle.Items,
	}), err
}
