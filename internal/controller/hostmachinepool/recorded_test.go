package hostmachinepool

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/pool"
)

// Members carry the revision that a former manager computed. Another value for the same pool would
// replace every machine of every pool when the manager is upgraded: these values never change.
func TestRecordedRevisionsStay(t *testing.T) {
	const kubeadm = "## template: jinja\n#cloud-config\nwrite_files:\n- path: /run/kubeadm/kubeadm-join-config.yaml\n  content: |\n    apiVersion: kubeadm.k8s.io/v1beta4\n" +
		"    discovery:\n      bootstrapToken: {apiServerEndpoint: 'a:6443', token: abcdef.0123456789abcdef}\n    kind: JoinConfiguration\nruncmd: [kubeadm join]\n"
	selector := &metav1.LabelSelector{
		MatchLabels:      map[string]string{"disk": "ssd", "a": "b"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rack", Operator: metav1.LabelSelectorOpIn, Values: []string{"x", "y"}}},
	}
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2000m"), corev1.ResourceMemory: resource.MustParse("4096Mi")}
	for name, c := range map[string]struct {
		data      string
		placement infrav1.Placement
		labels    []infrav1.HostLabelKey
		want      string
	}{
		"plain":                 {"#cloud-config\nruncmd: [true]\n", infrav1.Placement{}, nil, "88de81ccb4"},
		"of kubeadm":            {kubeadm, infrav1.Placement{}, nil, "19beb4f97d"},
		"a selector":            {kubeadm, infrav1.Placement{HostSelector: selector}, nil, "42d29eb253"},
		"an empty selector":     {kubeadm, infrav1.Placement{HostSelector: &metav1.LabelSelector{}}, nil, "e234c78331"},
		"a capacity":            {kubeadm, infrav1.Placement{MinCapacity: capacity}, nil, "0fb85a14dd"},
		"both, and preferences": {kubeadm, infrav1.Placement{HostSelector: selector, MinCapacity: capacity, Preferred: []infrav1.PreferredHosts{{Weight: 1, HostSelector: selector}}}, nil, "e3d6870a1d"},
		"labels of Nodes":       {kubeadm, infrav1.Placement{}, []infrav1.HostLabelKey{"rack"}, "aa413ba1b6"},
	} {
		t.Run(name, func(t *testing.T) {
			fingerprint, err := pool.Fingerprint([]byte(c.data))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := revisionOf(fingerprint, c.placement, c.labels); err != nil || got != c.want {
				t.Errorf("revision %s, %v, want %s", got, err, c.want)
			}
		})
	}
}
