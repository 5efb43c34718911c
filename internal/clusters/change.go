package clusters

import (
	"cmp"
	"fmt"
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Change is what to change of a Cluster that has a topology.
type Change struct {
	// ControlPlanes is how many control planes there are; nil leaves them.
	ControlPlanes *int32
	// Pools are pools or machine deployments of the topology, by their name there.
	Pools []Pool
	// Version of Kubernetes; empty leaves it.
	Version string
}

// Apply changes the topology. Nothing is changed when there is an error.
func (c Change) Apply(cluster *clusterv1.Cluster) error {
	if !cluster.Spec.Topology.IsDefined() {
		return fmt.Errorf("cluster %s: %w: change its control plane and its MachinePools or MachineDeployments instead", cluster.Name, errNoTopology)
	}
	changed := cluster.Spec.Topology.DeepCopy()
	if c.ControlPlanes != nil {
		if err := checkControlPlanes(*c.ControlPlanes); err != nil {
			return err
		}
		changed.ControlPlane.Replicas = c.ControlPlanes
	}
	for _, p := range c.Pools {
		if err := resize(&changed.Workers, p); err != nil {
			return err
		}
	}
	if c.Version != "" {
		version, err := newer(cluster.Spec.Topology.Version, c.Version)
		if err != nil {
			return err
		}
		changed.Version = version
	}
	cluster.Spec.Topology = *changed
	return nil
}

// resize changes the worker set of that name.
func resize(workers *clusterv1.WorkersTopology, p Pool) error {
	if replicas := replicasOf(workers, p.Name); replicas != nil {
		*replicas = ptr.To(p.Replicas)
		return nil
	}
	return invalid("--pool", "there is no %s; the topology has %s", p.Name, cmp.Or(strings.Join(WorkerNames(workers), ", "), "no workers"))
}

// replicasOf is the field of a pool or machine deployment; nil when there is none of that name.
func replicasOf(workers *clusterv1.WorkersTopology, name string) **int32 {
	for i := range workers.MachinePools {
		if p := &workers.MachinePools[i]; p.Name == name {
			return &p.Replicas
		}
	}
	for i := range workers.MachineDeployments {
		if d := &workers.MachineDeployments[i]; d.Name == name {
			return &d.Replicas
		}
	}
	return nil
}

// Replicas is how many machines a pool or machine deployment of a topology is to have; 0 when it does
// not say, and when there is none of that name.
func Replicas(workers *clusterv1.WorkersTopology, name string) int32 {
	if replicas := replicasOf(workers, name); replicas != nil {
		return ptr.Deref(*replicas, 0)
	}
	return 0
}

// WorkerNames are the names of the pools and machine deployments of a topology.
func WorkerNames(workers *clusterv1.WorkersTopology) []string {
	var names []string
	for i := range workers.MachinePools {
		names = append(names, workers.MachinePools[i].Name)
	}
	for i := range workers.MachineDeployments {
		names = append(names, workers.MachineDeployments[i].Name)
	}
	return names
}

// newer returns the version to upgrade to. Whether so many minor versions at once are
// allowed, Cluster API says.
func newer(from, to string) (string, error) {
	version, err := parseVersion(to)
	if err != nil {
		return "", err
	}
	was, err := utilversion.ParseSemantic(from)
	if err == nil && !was.LessThan(utilversion.MustParseSemantic(version)) {
		return "", invalid("--kubernetes-version", "%s is not newer than %s, which the Cluster has", version, from)
	}
	return version, nil
}
