package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/console/view"
	"github.com/slipway-dev/slipway/internal/doctor"
	hosts "github.com/slipway-dev/slipway/internal/host"
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

// shown are the kinds of a page besides those of doctor.ReadFleet.
var shown = slices.Concat(status.Members, doctor.Around)

// look takes a snapshot, with the states that follow from it. What may not be listed is named on
// the page; of kinds around hosts and clusters only the overview names it.
func (s *server) look(ctx context.Context, v *visit) error {
	o, err := doctor.ReadFleet(ctx, v.read.Reader, status.Scope{Namespace: s.Namespace}, s.now(), shown, nil)
	if err != nil {
		return err
	}
	for _, u := range o.Unread {
		if !slices.ContainsFunc(doctor.Around, func(k snapshot.Kind) bool { return k.Is(u.Kind) }) {
			v.read.Refuse(u.Err())
		}
	}
	v.o, v.states = o, status.Judge(o)
	// The renewals are kept from the first page on; without the right to read Leases there are none.
	_ = s.reader.Watch(ctx, &coordinationv1.Lease{})
	return nil
}

// clusterStatus is what the status tells of a cluster; nil when it is not there.
func (v *visit) clusterStatus(key client.ObjectKey) *status.Cluster {
	all := status.Of(v.o, v.states).Clusters
	i := slices.IndexFunc(all, func(c status.Cluster) bool { return c.Namespace == key.Namespace && c.Name == key.Name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

func (s *server) overview(v *visit) (string, any, error) {
	err := v.read.Watch(v.Context(), &corev1.Event{})
	// Equal ones are one row.
	return "Overview", view.OverviewOf(v.o, v.states, status.Of(v.o, v.states), view.Folded(s.timeline.Latest(view.PageSize))), err
}

func (s *server) hosts(v *visit) (string, any, error) {
	query := v.URL.Query()
	return "Hosts", view.HostsOf(view.HostLinesOf(v.o, v.states), view.HostFilter{
		Text: query.Get("q"), State: query.Get("state"), Domain: query.Get("domain"), Cluster: query.Get("cluster"), Version: query.Get("version"),
		Attention: query.Get("attention") != "", Racks: query.Get("racks") != "", Page: pageOf(v.Request),
	}), nil
}

func (s *server) host(v *visit) (string, any, error) {
	key := keyOf(v.Request)
	host := &infrav1.Host{}
	if err := v.read.Get(v.Context(), key, host); err != nil {
		return "", nil, fmt.Errorf("host %s: %w", key, err)
	}
	if err := v.read.Watch(v.Context(), &corev1.Event{}); err != nil {
		return "", nil, err
	}
	v.buttons = buttonsFor(s, v, "Host", host, hostActions)
	if !hosts.Approved(host) {
		approve := button{"Approve…", view.PageOf("Host", key.Namespace, key.Name, "") + "/approve", s.missing(v.Context(), key.Namespace, []right{onHosts("get"), onHosts("patch"), onHosts("approve")})}
		v.buttons = append([]button{approve}, v.buttons...)
	}
	v.buttons = append(v.buttons, button{"Log…", view.PageOf("Host", key.Namespace, key.Name, "") + "/logs", s.missing(v.Context(), key.Namespace, logRights)})
	shown := view.HostOf(host, v.o, v.states, s.timeline.About("Host", key.Namespace, key.Name))
	shown.Heartbeat = s.heartbeats.Of(key, s.now())
	return "Host " + key.Name, shown, nil
}

// placement tells why a machine has no host, host by host.
func (s *server) placement(v *visit) (string, any, error) {
	key := keyOf(v.Request)
	if err := v.read.Get(v.Context(), key, &infrav1.HostMachine{}); err != nil {
		return "", nil, fmt.Errorf("HostMachine %s: %w", key, err)
	}
	p, err := status.Explain(v.Context(), v.read, key.Namespace, key.Name)
	return "Hosts for " + key.Name, view.PlacementOf(p, pageOf(v.Request)), err
}

func (s *server) clusters(v *visit) (string, any, error) {
	namespace := s.Namespace
	if namespace == "" && len(v.o.Hosts) > 0 {
		namespace = v.o.Hosts[0].Namespace
	}
	v.buttons = []button{{"New cluster…", createPattern, s.missing(v.Context(), namespace, createRights)}}
	return "Clusters", view.ClusterLinesOf(v.o, v.states, status.Of(v.o, v.states).Clusters), nil
}

func (s *server) cluster(v *visit) (string, any, error) {
	key := keyOf(v.Request)
	cluster := &clusterv1.Cluster{}
	if err := v.read.Get(v.Context(), key, cluster); err != nil {
		return "", nil, fmt.Errorf("cluster %s: %w", key, err)
	}
	told := v.clusterStatus(key)
	if told == nil {
		return "", nil, apierrors.NewNotFound(clusterv1.GroupVersion.WithResource("clusters").GroupResource(), key.Name)
	}
	v.buttons = buttonsFor(s, v, "Cluster", cluster, clusterActions)
	return "Cluster " + key.Name, view.ClusterOf(cluster, *told, v.o, v.states, pageOf(v.Request)), nil
}

// document is an object as YAML.
type document struct {
	Page, Name string
	YAML       string
	Command    string
}

// clusterYAML shows a Cluster as the API server has it, but for its managed fields, which the reader drops.
func (s *server) clusterYAML(v *visit) (string, any, error) {
	key := keyOf(v.Request)
	cluster := &clusterv1.Cluster{}
	if err := v.read.Get(v.Context(), key, cluster); err != nil {
		return "", nil, fmt.Errorf("cluster %s: %w", key, err)
	}
	cluster = cluster.DeepCopy() // the one that was read is shared
	cluster.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	text, err := yaml.Marshal(cluster)
	return "Cluster " + key.Name, document{
		Page: view.PageOf("Cluster", key.Namespace, key.Name, ""), Name: key.Name, YAML: string(text),
		Command: fmt.Sprintf("kubectl get cluster %s -n %s -o yaml", key.Name, key.Namespace),
	}, err
}

func (s *server) pool(v *visit) (string, any, error) {
	key := keyOf(v.Request)
	pool := &infrav1.HostMachinePool{}
	if err := v.read.Get(v.Context(), key, pool); err != nil {
		return "", nil, fmt.Errorf("HostMachinePool %s: %w", key, err)
	}
	return "Pool " + key.Name, view.PoolOf(pool, versionOf(key, v.o.MachinePools), v.o, v.states, pageOf(v.Request)), nil
}

// versionOf is the version of the MachinePool of a HostMachinePool; empty without one.
func versionOf(pool client.ObjectKey, machinePools []clusterv1.MachinePool) string {
	for i := range machinePools {
		p := &machinePools[i]
		if spec := &p.Spec.Template.Spec; p.Namespace == pool.Namespace && view.IsOurs(spec.InfrastructureRef, "HostMachinePool") && spec.InfrastructureRef.Name == pool.Name {
			return spec.Version
		}
	}
	return ""
}

func eventFilter(r *http.Request) view.EventFilter {
	query := r.URL.Query()
	return view.EventFilter{Text: query.Get("q"), Warnings: query.Get("warnings") != "", Page: pageOf(r)}
}

func (s *server) activity(v *visit) (string, any, error) {
	err := v.read.Watch(v.Context(), &corev1.Event{})
	events := s.timeline.Events(eventFilter(v.Request))
	events.Shown = view.Folded(events.Shown)
	return "Activity", events, err
}

func (s *server) find(v *visit) (string, any, error) {
	text := strings.TrimSpace(v.URL.Query().Get("q"))
	return cmp.Or(strings.TrimSpace("Find "+text), "Find"), view.SearchOf(text, &v.o.Snapshot, v.states), nil
}
