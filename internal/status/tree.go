package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/doctor"
)

// Tree is a cluster with the machines that it consists of, and their hosts.
type Tree struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Version of Kubernetes in the topology; empty of a cluster without one.
	Version string `json:"version,omitempty"`
	// Endpoint of the control plane; empty until it is known.
	Endpoint string `json:"endpoint,omitempty"`
	State    State  `json:"state"`
	// Groups are the control plane, machine pools and machine deployments, and last the machines of neither.
	Groups []Group `json:"groups"`
}

// Group is a control plane, a pool or a deployment with its machines.
type Group struct {
	Pool
	// State of a pool of hosts; nil of the others, which are what their machines are.
	State    *State    `json:"state,omitempty"`
	Machines []Machine `json:"machines"`
}

// Machine of a cluster.
type Machine struct {
	Name string `json:"name"`
	// Host that it has; empty while it has none, and of a machine that is not on a host.
	Host string `json:"host,omitempty"`
	// Version of Kubernetes that it is to have.
	Version string `json:"version,omitempty"`
	State   State  `json:"state"`
}

// noGroup is the kind of the machines that nothing scales.
const noGroup = "Machines"

// TreeOf is a cluster of a snapshot, which has the kinds of Members.
func TreeOf(c *clusterv1.Cluster, o *doctor.Snapshot, states *States) Tree {
	t := Tree{Namespace: c.Namespace, Name: c.Name, Version: c.Spec.Topology.Version, State: states.Cluster(c)}
	if c.Spec.ControlPlaneEndpoint.IsValid() {
		t.Endpoint = c.Spec.ControlPlaneEndpoint.String()
	}
	summary := clusterOf(c, o.Machines)
	kind := cmp.Or(c.Spec.ControlPlaneRef.Kind, "ControlPlane")
	t.Groups = append(t.Groups, Group{Pool: Pool{Name: cmp.Or(c.Spec.ControlPlaneRef.Name, c.Name), Kind: kind, Replicas: summary.ControlPlane}})
	// Groups of workers, by the kind and the name of their object.
	index := map[[2]string]int{}
	add := func(object string, p Pool, state *State) {
		index[[2]string{p.Kind, object}] = len(t.Groups)
		t.Groups = append(t.Groups, Group{State: state, Pool: p})
	}
	for i := range o.MachinePools {
		if p := &o.MachinePools[i]; p.Namespace == c.Namespace && p.Spec.ClusterName == c.Name {
			add(p.Name, machinePool(p), poolState(p, o, states))
		}
	}
	for i := range o.MachineDeployments {
		if d := &o.MachineDeployments[i]; d.Namespace == c.Namespace && d.Spec.ClusterName == c.Name {
			add(d.Name, machineDeployment(d), nil)
		}
	}
	alone := Group{Pool: Pool{Kind: noGroup}}
	for i := range o.Machines {
		m := &o.Machines[i]
		if m.Namespace != c.Namespace || m.Spec.ClusterName != c.Name {
			continue
		}
		group := &alone
		if _, of := m.Labels[clusterv1.MachineControlPlaneLabel]; of {
			group = &t.Groups[0]
		} else if at, of := index[[2]string{"MachinePool", m.Labels[clusterv1.MachinePoolNameLabel]}]; of {
			group = &t.Groups[at]
		} else if at, of := index[[2]string{"MachineDeployment", m.Labels[clusterv1.MachineDeploymentNameLabel]}]; of {
			group = &t.Groups[at]
		} else if machineReady(m) {
			alone.Ready++
		}
		group.Machines = append(group.Machines, machineOf(m, o, states))
	}
	if alone.Desired = int32(min(len(alone.Machines), 1<<30)); alone.Desired > 0 {
		t.Groups = append(t.Groups, alone)
	}
	for i := range t.Groups {
		g := &t.Groups[i]
		if g.Machines == nil {
			g.Machines = []Machine{}
		}
		slices.SortFunc(g.Machines, func(a, b Machine) int { return NaturalCompare(a.Name, b.Name) })
	}
	return t
}

// poolState is the state of the HostMachinePool of a MachinePool; nil when it is not on hosts.
func poolState(p *clusterv1.MachinePool, o *doctor.Snapshot, states *States) *State {
	for i := range o.HostMachinePools {
		if of := &o.HostMachinePools[i]; of.Namespace == p.Namespace && of.Name == p.Spec.Template.Spec.InfrastructureRef.Name {
			s := states.Pool(of)
			return &s
		}
	}
	return nil
}

// machineOf is a machine of a snapshot: one that has a HostMachine is in that one's state.
func machineOf(m *clusterv1.Machine, o *doctor.Snapshot, states *States) Machine {
	out := Machine{Name: m.Name, Version: m.Spec.Version}
	if ref := m.Spec.InfrastructureRef; ref.Kind == "HostMachine" && ref.APIGroup == infrav1.GroupVersion.Group {
		if on := o.HostMachine(m.Namespace, ref.Name); on != nil {
			out.Host, out.State = on.Status.HostRef.Name, states.Machine(on)
			return out
		}
	}
	out.State = StateOf(nil, nil, m, nil)
	return out
}

// RenderTree writes t for a person; wide adds the versions. Why somebody must act, and what ends it, is written once, below
// what it is about.
func RenderTree(page *display.Page, t Tree, wide bool, now time.Time) {
	columns := []string{"NAME", "STATE", "FOR/1", "HOST/2"}
	if wide {
		columns = append(columns, "VERSION/3")
	}
	table := display.Table{Columns: display.Columns(columns...)}
	row := func(tree, name, host, version string, s *State, notes [][2]string) {
		cells := []display.Cell{{Text: tree + name}, {}, {}}
		if s != nil {
			cells = append(cells[:1], s.Cells(now)...)
		}
		cells = append(cells, display.Texts(host)...)
		if wide {
			cells = append(cells, display.Texts(version)...)
		}
		table.Rows = append(table.Rows, display.Row{Cells: cells, Notes: notes})
	}
	// The lines below a row continue the tree.
	because := func(below string, s State) (notes [][2]string) {
		if s.Cause != "" && s.Role != OK && s.Role != Free {
			notes = append(notes, [2]string{below + "because", s.Cause})
		}
		if s.Next != "" {
			notes = append(notes, [2]string{below + "next", s.Next})
		}
		return notes
	}
	above := because("│ ", t.State)
	if t.explains(t.State.Cause) {
		above = nil
	}
	row("", "Cluster/"+t.Name, t.Endpoint, t.Version, &t.State, above)
	for i := range t.Groups {
		g := &t.Groups[i]
		branch, below := "├─", "│ "
		if i == len(t.Groups)-1 {
			branch, below = "└─", "  "
		}
		name := strings.TrimSuffix(g.Kind+"/"+g.Name, "/") + " " + count(g.Replicas)
		var notes [][2]string
		if g.State != nil && (g.State.Attention() || g.State.Next != "") {
			stem := below + "│ "
			if len(g.Machines) == 0 {
				stem = below + "  "
			}
			notes = because(stem, *g.State)
		}
		row(branch, name, "", "", g.State, notes)
		for j := range g.Machines {
			m := &g.Machines[j]
			branch, stem := below+"├─", below+"│ "
			if j == len(g.Machines)-1 {
				branch, stem = below+"└─", below+"  "
			}
			row(branch, "Machine/"+m.Name, m.Host, m.Version, &m.State, because(stem, m.State))
		}
	}
	fmt.Fprintf(page, "Namespace %s\n", t.Namespace)
	page.Table(table)
}

// explains reports whether one of its machines or pools has the cause of the cluster.
func (t *Tree) explains(cause string) bool {
	below := func(s *State) bool { return s != nil && s.Cause != "" && strings.HasSuffix(cause, s.Cause) }
	return slices.ContainsFunc(t.Groups, func(g Group) bool {
		return below(g.State) || slices.ContainsFunc(g.Machines, func(m Machine) bool { return below(&m.State) })
	})
}
