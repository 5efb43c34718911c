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

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/console/view"
	"github.com/slipway-dev/slipway/internal/console/watch"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/snapshot"
	"github.com/slipway-dev/slipway/internal/status"
)

// keyOf is the object that the path of a page names.
func keyOf(r *http.Request) client.ObjectKey {
	return client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
}

func pageOf(r *http.Request) int {
	page, _ := strconv.Atoi(r.URL.Query().Get("page")) // what is no number is the first
	return page
}

// look takes a snapshot of a namespace, or of all, with the states that follow from it. What may not
// be listed is named on the page.
func (s *server) look(ctx context.Context, read *watch.Lenient, namespace string, more ...snapshot.Kind) (*doctor.Snapshot, *status.States, error) {
	o, err := doctor.ReadFleet(ctx, read.Reader, status.Scope{Namespace: namespace}, s.now(), more, nil)
	if err != nil {
		return nil, nil, err
	}
	for i := range o.Unread {
		read.Refuse(o.Unread[i].Err())
	}
	return o, status.Judge(o), nil
}

func (s *server) fleet(ctx context.Context, read *watch.Lenient, r *http.Request) (string, any, error) {
	o, states, err := s.look(ctx, read, s.Namespace)
	if err != nil {
		return "", nil, err
	}
	query := r.URL.Query()
	return "Fleet", view.FleetOf(status.HostsOf(o, states), view.FleetFilter{
		Text: query.Get("q"), State: query.Get("state"), Domain: query.Get("domain"), Attention: query.Get("attention") != "", Page: pageOf(r),
	}), nil
}

func (s *server) host(ctx context.Context, read *watch.Lenient, r *http.Request) (string, any, error) {
	key := keyOf(r)
	host := &infrav1.Host{}
	if err := read.Get(ctx, key, host); err != nil {
		return "", nil, fmt.Errorf("host %s: %w", key, err)
	}
	o, states, err := s.look(ctx, read, key.Namespace, snapshot.Events)
	if err != nil {
		return "", nil, err
	}
	about := slices.DeleteFunc(o.Events, func(e corev1.Event) bool {
		return e.InvolvedObject.Kind != "Host" || e.InvolvedObject.Name != key.Name
	})
	return "Host " + key.Name, view.HostOf(host, status.HostOf(host, states), machineOf(host, o.Machines), about), nil
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
	o, states, err := s.look(ctx, read, s.Namespace, status.Members...)
	if err != nil {
		return "", nil, err
	}
	return "Clusters", status.Of(o, states).Clusters, nil
}

func (s *server) cluster(ctx context.Context, read *watch.Lenient, r *http.Request) (string, any, error) {
	key := keyOf(r)
	cluster := &clusterv1.Cluster{}
	if err := read.Get(ctx, key, cluster); err != nil {
		return "", nil, fmt.Errorf("cluster %s: %w", key, err)
	}
	o, states, err := s.look(ctx, read, key.Namespace, status.Members...)
	if err != nil {
		return "", nil, err
	}
	told := status.Of(o, states).Clusters
	i := slices.IndexFunc(told, func(c status.Cluster) bool { return c.Name == key.Name })
	if i < 0 {
		return "", nil, apierrors.NewNotFound(clusterv1.GroupVersion.WithResource("clusters").GroupResource(), key.Name)
	}
	return "Cluster " + key.Name, view.ClusterOf(cluster, told[i], &o.Snapshot, states, pageOf(r)), nil
}

func (s *server) pool(ctx context.Context, read *watch.Lenient, r *http.Request) (string, any, error) {
	key := keyOf(r)
	pool := &infrav1.HostMachinePool{}
	if err := read.Get(ctx, key, pool); err != nil {
		return "", nil, fmt.Errorf("HostMachinePool %s: %w", key, err)
	}
	o, states, err := s.look(ctx, read, key.Namespace, snapshot.MachinePools)
	if err != nil {
		return "", nil, err
	}
	return "Pool " + key.Name, view.PoolOf(pool, versionOf(key.Name, o.MachinePools), &o.Snapshot, states, pageOf(r)), nil
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
	o, states, err := s.look(ctx, read, s.Namespace)
	if err != nil {
		return "", nil, err
	}
	return "Search", view.SearchOf(strings.TrimSpace(r.URL.Query().Get("q")), &o.Snapshot, states), nil
}
