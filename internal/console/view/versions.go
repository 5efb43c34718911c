package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/status"
)

// Versions are what runs where.
type Versions struct {
	// Troubles are findings about versions that do not go together.
	Troubles []Trouble
	// Management are the parts of the management cluster.
	Management []Component
	Groups     []VersionGroup
	// OnHosts are tables of what hosts have.
	OnHosts []VersionTable
	Ends    []End
}

// Component is a part of the management cluster.
type Component struct{ Name, Namespace, Version string }

// VersionGroup is the control plane or a pool of a cluster.
type VersionGroup struct {
	Namespace, Cluster, Name string
	// Wanted is the version that it is to have, of a cluster with a topology.
	Wanted string
	// Runs are those of its kubelets.
	Runs []VersionCount
	// Newer is the newest version that hosts have and that the cluster may go to; Hosts is how many have
	// it, and Next the commands that go there.
	Newer string
	Hosts int
	// Newest says that there is none.
	Newest bool
	Next   []string
}

// VersionTable has the versions of one thing, the newest first.
type VersionTable struct {
	Title string
	Rows  []VersionCount
}

// VersionCount is how many run a version, of the Total that the bar stands for.
type VersionCount struct {
	Version string
	Count   int
	Bar     Bar
}

// End is something that a coming version no longer supports.
type End struct {
	What, Until, Do string
	// Nodes is how many are concerned.
	Nodes int
}

// versionChecks find versions that do not go together.
var versionChecks = []string{"VersionSkew", "AgentVersionSkew"}

// VersionsOf shows a snapshot; management are parts that no object tells of.
func VersionsOf(o *doctor.Snapshot, states *status.States, management []Component) Versions {
	v := Versions{Management: management}
	found := slices.DeleteFunc(slices.Clone(states.Findings()), func(f doctor.Finding) bool { return !slices.Contains(versionChecks, f.Check) })
	v.Troubles, _ = TroublesOf(found, o)
	for i := range o.Providers {
		v.Management = append(v.Management, Component{o.Providers[i].Name, o.Providers[i].Namespace, imageVersion(&o.Providers[i])})
	}
	agents, installed, runtimes, systems := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	for i := range o.Hosts {
		found := o.Hosts[i].Status.Inventory
		agents[found.AgentVersion]++
		systems[found.OperatingSystem]++
		for _, version := range found.KubernetesVersions {
			installed[version]++
		}
	}
	for i := range o.Machines {
		if info := o.Machines[i].Status.NodeInfo; info != nil {
			runtimes[strings.Replace(info.ContainerRuntimeVersion, "://", " ", 1)]++
		}
	}
	v.OnHosts = []VersionTable{
		{"Kubernetes that hosts have", versionRows(installed, len(o.Hosts))}, {"slipway-agent", versionRows(agents, len(o.Hosts))},
		{"Container runtimes of nodes", versionRows(runtimes, len(o.Machines))}, {"Operating systems", versionRows(systems, len(o.Hosts))},
	}
	for i := range o.Clusters {
		v.Groups = append(v.Groups, versionGroups(&o.Clusters[i], o)...)
	}
	if old := olderRuntimes(runtimes); old > 0 {
		v.Ends = append(v.Ends, End{"containerd 1", "Kubernetes 1.35: the kubelet of 1.36 needs containerd 2", "a host bundle with containerd 2, or your packages", old})
	}
	return v
}

// imageVersion is the tag of the manager of a provider.
func imageVersion(d *appsv1.Deployment) string {
	for _, c := range d.Spec.Template.Spec.Containers {
		image, _, _ := strings.Cut(c.Image, "@")
		if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
			return image[i+1:]
		}
	}
	return ""
}

// versionRows has the newest first.
func versionRows(count map[string]int, total int) []VersionCount {
	delete(count, "")
	var all []VersionCount
	for version, n := range count {
		all = append(all, VersionCount{version, n, barOf(total, map[status.Role]int{status.Free: n}, fmt.Sprintf("%d of %d", n, total))})
	}
	slices.SortFunc(all, func(a, b VersionCount) int { return status.NaturalCompare(b.Version, a.Version) })
	return all
}

// olderRuntimes is how many nodes have containerd 1.
func olderRuntimes(runtimes map[string]int) int {
	n := 0
	for name, count := range runtimes {
		if strings.HasPrefix(name, "containerd 1.") {
			n += count
		}
	}
	return n
}

// versionGroups are the control plane and the pools of a cluster. The command is that of the cluster,
// beside its control plane.
func versionGroups(c *clusterv1.Cluster, o *doctor.Snapshot) []VersionGroup {
	type key struct {
		order int
		name  string
	}
	runs, total := map[key]map[string]int{}, map[key]int{}
	runs[key{}] = map[string]int{}
	for i := range o.Machines {
		m := &o.Machines[i]
		if m.Namespace != c.Namespace || m.Spec.ClusterName != c.Name {
			continue
		}
		order, name := groupOf(m.Labels)
		of := key{order, name}
		if runs[of] == nil {
			runs[of] = map[string]int{}
		}
		runs[of][versionOn(m)]++
		total[of]++
	}
	var groups []VersionGroup
	for of, count := range runs {
		g := VersionGroup{Namespace: c.Namespace, Cluster: c.Name, Name: cmp.Or(of.name, groupKinds[of.order], "without an owner"), Runs: versionRows(count, total[of])}
		if c.Spec.Topology.IsDefined() {
			g.Wanted = c.Spec.Topology.Version
		}
		if of == (key{}) && g.Wanted != "" {
			if g.Newer, g.Hosts = newerOn(o.Hosts, c.Namespace, g.Wanted); g.Newer == "" {
				g.Newest = true
			} else {
				g.Next = []string{
					fmt.Sprintf("slipway check upgrade %s --to %s -n %s", c.Name, g.Newer, c.Namespace),
					fmt.Sprintf("slipway cluster upgrade %s --kubernetes-version %s -n %s", c.Name, g.Newer, c.Namespace),
				}
			}
		}
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b VersionGroup) int {
		return cmp.Or(cmp.Compare(one(a.Name != groupKinds[0]), one(b.Name != groupKinds[0])), status.NaturalCompare(a.Name, b.Name))
	})
	return groups
}

// newerOn is the newest version on the hosts of a namespace that a cluster may go to: at most one minor version
// newer than the one it has. It is empty without one.
func newerOn(hosts []infrav1.Host, namespace, from string) (newest string, count int) {
	has, err := utilversion.ParseSemantic(from)
	if err != nil {
		return "", 0
	}
	best := has
	on := map[string]int{}
	for i := range hosts {
		if hosts[i].Namespace != namespace {
			continue
		}
		for _, text := range hosts[i].Status.Inventory.KubernetesVersions {
			on[text]++
			v, err := utilversion.ParseSemantic(text)
			if err == nil && v.Major() == has.Major() && v.Minor() <= has.Minor()+1 && best.LessThan(v) {
				best, newest = v, text
			}
		}
	}
	return newest, on[newest]
}
