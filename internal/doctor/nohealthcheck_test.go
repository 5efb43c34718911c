package doctor

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// worker makes of the machine of a healthy snapshot one of a pool.
func worker(s *Snapshot) {
	s.Machines[0].Labels[clusterv1.MachinePoolNameLabel] = "pool"
	delete(s.Machines[0].Labels, clusterv1.MachineControlPlaneLabel)
}

// healthCheckOf adds a check of the machines of a Cluster that have a label.
func healthCheckOf(s *Snapshot, cluster, label string) {
	check := clusterv1.MachineHealthCheck{ObjectMeta: objectMeta(cluster)}
	check.Spec.ClusterName = cluster
	check.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: label, Operator: metav1.LabelSelectorOpExists}}
	s.MachineHealthChecks = append(s.MachineHealthChecks, check)
}

var unchecked = []want{{"NoHealthCheck", Note, "Cluster prod/a", 24 * time.Hour, "No MachineHealthCheck selects 1 of its workers", `"name":"a-workers","namespace":"prod"`}}

var _ = add([]testCase{
	{"a cluster has no health check", worker, unchecked},
	{"the health checks of a cluster select none of its workers", func(s *Snapshot) {
		worker(s)
		healthCheckOf(s, "a", "elsewhere")
		healthCheckOf(s, "b", clusterv1.MachinePoolNameLabel)
	}, unchecked},
	{"a cluster has a health check", func(s *Snapshot) {
		worker(s)
		healthCheckOf(s, "a", clusterv1.MachinePoolNameLabel)
	}, nil},
	{"health checks may not be read", func(s *Snapshot) {
		worker(s)
		s.Unread = []Unread{{Kind: "MachineHealthCheck"}}
	}, nil},
	{"a cluster without a health check is being deleted", func(s *Snapshot) {
		worker(s)
		s.Clusters[0].DeletionTimestamp = ptr.To(ago(time.Minute))
	}, nil},
}...)

// The command that makes a health check hands kubectl an object, whatever a shell does with quotes.
func TestHealthCheckCommand(t *testing.T) {
	s := healthy()
	worker(s)
	for _, f := range Diagnose(s).Findings {
		out, err := exec.Command("sh", "-c", strings.Replace(f.Next, "kubectl apply -f -", "cat", 1)).Output()
		if check := (clusterv1.MachineHealthCheck{}); err != nil || json.Unmarshal(out, &check) != nil || check.Spec.ClusterName != "a" {
			t.Errorf("%s hands over %s (%v)", f.Next, out, err)
		}
	}
}
