package view

import (
	"cmp"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/internal/snapshot"
	"github.com/slipway-dev/slipway/internal/status"
)

// maxFound is how much of one kind is told of: who gets more asks for less.
const maxFound = 50

// Search is what has a text in its name, or what it is known by.
type Search struct {
	Text  string
	Kinds []Found
}

// Found is what of one kind was found.
type Found struct {
	Kind string
	// Items are at most maxFound; More is how many are left out.
	Items []Item
	More  int
}

// Item is an object with its page.
type Item struct {
	// Path of the page, such as hosts, with the namespace and name that it is for.
	Path, Namespace, Name string
	// Title is the name of the object, which for a machine is not that of its page.
	Title string
	// Detail is what was found besides the name.
	Detail string
}

// SearchOf finds a text; nothing when it is empty.
func SearchOf(text string, in *snapshot.Snapshot, states *status.States) Search {
	v := Search{Text: text}
	if text == "" {
		return v
	}
	var found Found
	add := func(path, namespace, name, detail string, known ...string) {
		if containsFold(text, append(known, namespace+"/"+name)...) {
			found.Items = append(found.Items, Item{Path: path, Namespace: namespace, Name: name, Title: name, Detail: detail})
		}
	}
	end := func(kind string) {
		if len(found.Items) > 0 {
			found.Kind = kind
			slices.SortStableFunc(found.Items, func(a, b Item) int {
				return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), status.NaturalCompare(a.Name, b.Name))
			})
			found.More = max(0, len(found.Items)-maxFound)
			found.Items = found.Items[:min(len(found.Items), maxFound)]
			v.Kinds = append(v.Kinds, found)
		}
		found = Found{}
	}
	for i := range in.Clusters {
		add("clusters", in.Clusters[i].Namespace, in.Clusters[i].Name, states.Cluster(&in.Clusters[i]).Word)
	}
	end("Clusters")
	for i := range in.HostMachinePools {
		add("pools", in.HostMachinePools[i].Namespace, in.HostMachinePools[i].Name, in.HostMachinePools[i].Labels[clusterv1.ClusterNameLabel])
	}
	end("Pools")
	for i := range in.Hosts {
		h := status.HostOf(&in.Hosts[i], states)
		add("hosts", h.Namespace, h.Name, cmp.Or(h.ClaimedBy, h.State.Word), append([]string{h.ClaimedBy, h.FailureDomain}, h.Addresses...)...)
	}
	end("Hosts")
	for i := range in.Machines {
		// A machine is shown on the page of its cluster.
		m := &in.Machines[i]
		if containsFold(text, m.Name, m.Status.NodeRef.Name, m.Spec.ProviderID) {
			found.Items = append(found.Items, Item{Path: "clusters", Namespace: m.Namespace, Name: m.Spec.ClusterName, Title: m.Name, Detail: "cluster " + m.Spec.ClusterName + ", node " + cmp.Or(m.Status.NodeRef.Name, "none")})
		}
	}
	end("Machines")
	for i := range in.LifecycleRuns {
		r := &in.LifecycleRuns[i]
		add("runs", r.Namespace, r.Name, string(r.Spec.Hook)+" of "+r.Spec.ClusterName, r.Spec.ClusterName, r.Spec.PolicyName)
	}
	end("Lifecycle runs")
	return v
}
