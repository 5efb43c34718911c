package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/placement"
	"github.com/slipway-dev/slipway/internal/snapshot"
	"github.com/slipway-dev/slipway/internal/text"
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
	// Remedy is what may make it fit; empty when nothing is known that does.
	Remedy string `json:"remedy,omitempty"`
}

// Explain tells of one machine, "name" or "namespace/name", which hosts fit and why
// the others don't. A name alone is looked for in the namespace; in all when empty.
func Explain(ctx context.Context, c client.Reader, namespace, name string) (Placement, error) {
	m, err := findMachine(ctx, c, namespace, name)
	if err != nil {
		return Placement{}, err
	}
	request, err := requestFor(ctx, c, m)
	if err != nil {
		return Placement{}, err
	}
	requirements, err := placement.Parse(request)
	if err != nil {
		return Placement{}, fmt.Errorf("HostMachine %s: %w", m.Name, err)
	}
	snapshot, err := placement.Read(ctx, namespaced{c}, m.Namespace)
	if err != nil {
		return Placement{}, err
	}
	p := Placement{Namespace: m.Namespace, Machine: m.Name, Host: m.Status.HostRef.Name, Version: request.Version, Hosts: []PlacementHost{}}
	if claimed := meta.FindStatusCondition(m.Status.Conditions, infrav1.HostClaimedCondition); claimed != nil {
		p.Message = cmp.Or(claimed.Message, claimed.Reason)
	}
	if m.Spec.Adopt.HostName != "" {
		p.Hosts = adoption(m, p.Message, snapshot.Hosts)
		return p, nil
	}
	result := snapshot.Rank(requirements)
	for _, fit := range result.Ranked {
		p.Hosts = append(p.Hosts, PlacementHost{Name: fit.Host.Name, Fits: true, Reason: merits(request, fit)})
	}
	for _, rejected := range result.Rejected {
		h := PlacementHost{Name: rejected.Host.Name, Reason: rejected.Reason, Remedy: rejected.Remedy}
		if claim := rejected.Host.Spec.Claim; claim != nil && h.Reason == placement.Claimed {
			h.Remedy = fmt.Sprintf("free one with: slipway cluster scale %s --pool POOL=REPLICAS -n %s", claim.ClusterName, rejected.Host.Namespace)
		}
		p.Hosts = append(p.Hosts, h)
	}
	return p, nil
}

// adoption is what the hosts are to a machine that asks for one of them by name. The
// controller has said why it can't have it.
func adoption(m *infrav1.HostMachine, why string, hosts []*infrav1.Host) []PlacementHost {
	asked := m.Spec.Adopt.HostName
	found := []PlacementHost{}
	for _, of := range hosts {
		h := PlacementHost{Name: of.Name, Reason: "spec.adopt asks for " + asked}
		if h.Name == asked {
			h.Fits, h.Reason = m.Status.HostRef.Name == asked, why
		}
		found = append(found, h)
	}
	return found
}

// merits says why a host that fits has its rank.
func merits(request placement.Request, fit placement.Verdict) string {
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
	switch {
	case fit.Install:
		why = append(why, fmt.Sprintf("Kubernetes %s can be installed", request.Version))
	case request.Release != nil:
		why = append(why, fmt.Sprintf("Kubernetes %s installed", request.Version))
	}
	return strings.Join(why, ", ")
}

func findMachine(ctx context.Context, c client.Reader, namespace, name string) (*infrav1.HostMachine, error) {
	if of, _, ok := strings.Cut(name, "/"); ok {
		namespace = of
	}
	s, err := snapshot.ReadAll(ctx, c, namespace, snapshot.HostMachines)
	if err != nil {
		return nil, err
	}
	var found []*infrav1.HostMachine
	var waiting []string
	for i := range s.HostMachines {
		m := &s.HostMachines[i]
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
		return nil, fmt.Errorf("%d machines are called %s: name one as NAMESPACE/NAME", len(found), name)
	case len(waiting) == 0:
		return nil, fmt.Errorf("HostMachine %s not found; no machine is waiting for a host", name)
	default:
		slices.Sort(waiting)
		return nil, fmt.Errorf("HostMachine %s not found; these wait for a host: %s", name, strings.Join(waiting[:min(len(waiting), 10)], ", "))
	}
}

// requestFor is what the machine asks of a host, as the controller sees it.
func requestFor(ctx context.Context, c client.Reader, m *infrav1.HostMachine) (placement.Request, error) {
	owner, err := placement.OwnerOf(ctx, c, m)
	if err != nil {
		return placement.Request{}, err
	}
	cluster := &clusterv1.Cluster{}
	err = c.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Labels[clusterv1.ClusterNameLabel]}, cluster)
	if apierrors.IsNotFound(err) {
		cluster, err = nil, nil
	}
	if err != nil {
		return placement.Request{}, fmt.Errorf("get the Cluster of HostMachine %s: %w", m.Name, err)
	}
	request, err := placement.RequestFor(ctx, namespaced{c}, m, owner, cluster)
	if err == nil && m.Spec.ProviderID == "" && owner != nil && !owner.ControlPlane {
		request.Ahead, err = placement.Ahead(ctx, namespaced{c}, cluster)
	}
	return request, err
}

// namespaced reads for somebody who may see a namespace and no KubernetesReleases: as if
// there were none.
type namespaced struct{ client.Reader }

func (r namespaced) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, o, options...)
	_, release := o.(*infrav1.KubernetesRelease)
	if release && (apierrors.IsForbidden(err) || meta.IsNoMatchError(err)) {
		return apierrors.NewNotFound(infrav1.GroupVersion.WithResource("kubernetesreleases").GroupResource(), key.Name)
	}
	return err
}

// RenderPlacement writes p for a person.
func RenderPlacement(page *display.Page, p Placement) {
	machine := display.Row{Cells: display.Texts(p.Namespace+"/"+p.Machine, cmp.Or(p.Version, "any"), cmp.Or(p.Host, "none yet"))}
	if p.Host == "" && p.Message != "" {
		machine.Notes = append(machine.Notes, [2]string{"  waiting for", text.OneLine(p.Message)})
	}
	page.Table(display.Table{Columns: display.Columns("MACHINE", "VERSION/1", "HOST"), Rows: []display.Row{machine}})
	t := display.Table{Columns: display.Columns("HOST", "FITS", "WHY", "WHAT WOULD HELP/1")}
	for _, h := range p.Hosts {
		fits := display.Cell{Text: strconv.FormatBool(h.Fits), Role: Off}
		if h.Fits {
			fits.Role = Free
		}
		t.Rows = append(t.Rows, display.Row{Cells: []display.Cell{{Text: h.Name}, fits, {Text: h.Reason}, {Text: h.Remedy}}})
	}
	fmt.Fprintln(page)
	page.Table(t)
}
