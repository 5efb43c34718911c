package status

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/placement"
)

// Placement is what each host of a namespace is to one machine, by the code that
// chooses hosts.
type Placement struct {
	Namespace string `json:"namespace"`
	Machine   string `json:"machine"`
	// Host is the one the machine has; empty while it waits.
	Host string `json:"host,omitempty"`
	// Message of the machine's condition HostClaimed.
	Message string `json:"message,omitempty"`
	// Version of Kubernetes the machine asks for.
	Version string `json:"version,omitempty"`
	// Hosts that fit come first, the best at the front; then the others by name.
	Hosts []PlacementHost `json:"hosts"`
}

// PlacementHost is one host.
type PlacementHost struct {
	Name string `json:"name"`
	Fits bool   `json:"fits"`
	// Reason why it doesn't fit, or what speaks for it.
	Reason string `json:"reason,omitempty"`
}

// Explain tells of one machine, "name" or "namespace/name", which hosts fit and why
// the others don't.
func Explain(ctx context.Context, c client.Reader, name string) (Placement, error) {
	m, err := findMachine(ctx, c, name)
	if err != nil {
		return Placement{}, err
	}
	request, err := requestOf(ctx, c, m)
	if err != nil {
		return Placement{}, err
	}
	chooser, err := placement.NewChooser(request)
	if err != nil {
		return Placement{}, fmt.Errorf("HostMachine %s: %w", m.Name, err)
	}
	hosts := &infrav1.HostList{}
	if err := c.List(ctx, hosts, client.InNamespace(m.Namespace)); err != nil {
		return Placement{}, fmt.Errorf("list hosts: %w", err)
	}
	p := Placement{Namespace: m.Namespace, Machine: m.Name, Host: m.Status.HostRef.Name, Version: request.Version, Hosts: []PlacementHost{}}
	if claimed := meta.FindStatusCondition(m.Status.Conditions, infrav1.HostClaimedCondition); claimed != nil {
		p.Message = cmp.Or(claimed.Message, claimed.Reason)
	}
	if m.Spec.Adopt.HostName != "" {
		p.Hosts = adoption(m, p.Message, hosts.Items)
		return p, nil
	}
	machines := &clusterv1.MachineList{}
	if err := c.List(ctx, machines, client.InNamespace(m.Namespace)); err != nil {
		return Placement{}, fmt.Errorf("list Machines: %w", err)
	}
	leaving := placement.LeavingNodes(machines.Items)
	candidates := make([]placement.Candidate, 0, len(hosts.Items))
	for i := range hosts.Items {
		h := &hosts.Items[i]
		candidates = append(candidates, placement.Candidate{
			Host: h, Connected: meta.IsStatusConditionTrue(h.Status.Conditions, infrav1.AgentConnectedCondition), NodeLeaving: leaving[h.Name],
		})
	}
	result := chooser.Choose(candidates)
	for _, fit := range result.Ranked {
		p.Hosts = append(p.Hosts, PlacementHost{Name: fit.Host.Name, Fits: true, Reason: merits(request, fit)})
	}
	for _, rejected := range result.Rejected {
		p.Hosts = append(p.Hosts, PlacementHost{Name: rejected.Host, Reason: rejected.Reason})
	}
	return p, nil
}

// adoption is what the hosts are to a machine that asks for one of them by name. The
// controller has said why it can't have it.
func adoption(m *infrav1.HostMachine, why string, hosts []infrav1.Host) []PlacementHost {
	asked := m.Spec.Adopt.HostName
	found := []PlacementHost{}
	for i := range hosts {
		h := PlacementHost{Name: hosts[i].Name, Reason: "spec.adopt asks for " + asked}
		if h.Name == asked {
			h.Fits, h.Reason = m.Status.HostRef.Name == asked, why
		}
		found = append(found, h)
	}
	return found
}

// merits says why a host that fits has its rank.
func merits(request placement.Request, fit placement.Fit) string {
	var why []string
	if request.Spread != nil {
		where := "outside"
		if fit.InDomain {
			where = "in"
		}
		why = append(why, fmt.Sprintf("%s failure domain %s", where, request.Spread.Value))
	}
	if len(request.Placement.Preferred) > 0 {
		why = append(why, fmt.Sprintf("score %d", fit.Score))
	}
	return strings.Join(why, ", ")
}

func findMachine(ctx context.Context, c client.Reader, name string) (*infrav1.HostMachine, error) {
	machines := &infrav1.HostMachineList{}
	if err := c.List(ctx, machines); err != nil {
		return nil, fmt.Errorf("list HostMachines: %w", err)
	}
	var found []*infrav1.HostMachine
	var waiting []string
	for i := range machines.Items {
		m := &machines.Items[i]
		full := m.Namespace + "/" + m.Name
		if name == m.Name || name == full {
			found = append(found, m)
		}
		if m.Spec.ProviderID == "" {
			waiting = append(waiting, full)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("there are %d machines %s; say which as namespace/name", len(found), name)
	case len(waiting) == 0:
		return nil, fmt.Errorf("there is no HostMachine %s, and none waits for a host", name)
	default:
		slices.Sort(waiting)
		return nil, fmt.Errorf("there is no HostMachine %s; these wait for a host: %s", name, strings.Join(waiting[:min(len(waiting), 10)], ", "))
	}
}

// requestOf reads what the controller would: the machine, its owner and its cluster.
func requestOf(ctx context.Context, c client.Reader, m *infrav1.HostMachine) (placement.Request, error) {
	version, domains, err := ownerOf(ctx, c, m)
	if err != nil {
		return placement.Request{}, err
	}
	cluster, hostCluster := &clusterv1.Cluster{}, &infrav1.HostCluster{}
	err = c.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Labels[clusterv1.ClusterNameLabel]}, cluster)
	if err == nil && cluster.Spec.InfrastructureRef.Kind == "HostCluster" {
		err = c.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: cluster.Spec.InfrastructureRef.Name}, hostCluster)
	}
	if client.IgnoreNotFound(err) != nil {
		return placement.Request{}, fmt.Errorf("read the cluster of HostMachine %s: %w", m.Name, err)
	}
	return placement.NewRequest(m.Spec, version, domains, hostCluster.Spec.FailureDomainLabel), nil
}

// ownerOf returns the version and the failure domains of the Machine or MachinePool
// behind a HostMachine; both are empty when there is none.
func ownerOf(ctx context.Context, c client.Reader, m *infrav1.HostMachine) (string, []string, error) {
	poolName := ""
	for _, ref := range m.OwnerReferences {
		if ref.Kind == "HostMachinePool" {
			poolName = ref.Name
		}
	}
	if poolName != "" {
		pools := &clusterv1.MachinePoolList{}
		if err := c.List(ctx, pools, client.InNamespace(m.Namespace)); err != nil {
			return "", nil, fmt.Errorf("list MachinePools: %w", err)
		}
		for i := range pools.Items {
			if ref := pools.Items[i].Spec.Template.Spec.InfrastructureRef; ref.Kind == "HostMachinePool" && ref.Name == poolName {
				return pools.Items[i].Spec.Template.Spec.Version, pools.Items[i].Spec.FailureDomains, nil
			}
		}
		return "", nil, nil
	}
	machines := &clusterv1.MachineList{}
	if err := c.List(ctx, machines, client.InNamespace(m.Namespace)); err != nil {
		return "", nil, fmt.Errorf("list Machines: %w", err)
	}
	for i := range machines.Items {
		spec := machines.Items[i].Spec
		if spec.InfrastructureRef.Kind == "HostMachine" && spec.InfrastructureRef.Name == m.Name {
			var domains []string
			if spec.FailureDomain != "" {
				domains = []string{spec.FailureDomain}
			}
			return spec.Version, domains, nil
		}
	}
	return "", nil, nil
}

// RenderPlacement writes p for a person.
func RenderPlacement(out io.Writer, p Placement) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "MACHINE\tVERSION\tHOST\n%s/%s\t%s\t%s\n", p.Namespace, p.Machine, cmp.Or(p.Version, "any"), cmp.Or(p.Host, "none yet"))
	if p.Host == "" && p.Message != "" {
		fmt.Fprintf(w, "  waiting for\t%s\n", strings.Join(strings.Fields(p.Message), " "))
	}
	fmt.Fprint(w, "\nHOST\tFITS\tWHY\n")
	for _, h := range p.Hosts {
		fmt.Fprintf(w, "%s\t%t\t%s\n", h.Name, h.Fits, h.Reason)
	}
	return w.Flush()
}
