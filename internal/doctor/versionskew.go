package doctor

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
)

// maxSkew is how many minor versions a kubelet may be older than an API server.
const maxSkew = 3

var _ = register(Check{
	Layer:  Machines + 8,
	Name:   "VersionSkew",
	Means:  "the kubelet of a machine is newer than an API server of its cluster, or more than three minor versions older: Kubernetes supports neither",
	Remedy: "Upgrade the control plane where the kubelet is newer, the pool of the machine where it is older.",
	find: func(s *Snapshot) []Finding {
		oldest, newest := map[string]*version.Version{}, map[string]*version.Version{}
		for i := range s.Machines {
			m := &s.Machines[i]
			v := kubeletOf(m)
			if !util.IsControlPlaneMachine(m) || v == nil {
				continue
			}
			key := m.Namespace + "/" + m.Spec.ClusterName
			if oldest[key] == nil || v.LessThan(oldest[key]) {
				oldest[key] = v
			}
			if newest[key] == nil || newest[key].LessThan(v) {
				newest[key] = v
			}
		}
		return each(s.Machines, func(m *clusterv1.Machine) (Finding, bool) {
			key := m.Namespace + "/" + m.Spec.ClusterName
			v := kubeletOf(m)
			if util.IsControlPlaneMachine(m) || v == nil || oldest[key] == nil {
				return none()
			}
			f := atMachine(m, Error).next("slipway cluster upgrade %s -n %s --kubernetes-version %s", m.Spec.ClusterName, m.Namespace, "v"+newer(v, newest[key]).String())
			switch server := newest[key]; {
			case v.Major() == oldest[key].Major() && v.Minor() > oldest[key].Minor():
				f.Message = fmt.Sprintf("its kubelet is of %s, and an API server of %s", v, oldest[key])
			case server.Major() == v.Major() && server.Minor() > v.Minor()+maxSkew:
				f.Message = fmt.Sprintf("its kubelet is of %s, and an API server of %s", v, server)
			default:
				return none()
			}
			return f, true
		})
	},
})

func newer(a, b *version.Version) *version.Version {
	if a.LessThan(b) {
		return b
	}
	return a
}

// kubeletOf is the version of the kubelet of a Machine; nil where it is not known.
func kubeletOf(m *clusterv1.Machine) *version.Version {
	if m.Status.NodeInfo == nil || !m.DeletionTimestamp.IsZero() {
		return nil
	}
	v, err := version.ParseSemantic(m.Status.NodeInfo.KubeletVersion)
	if err != nil {
		return nil
	}
	return v
}
