package manager

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Hosts and clusters are counted by the roles that status and the console have for them: a finding of doctor, or a
// decision that a run waits for.
func TestStatesAreCounted(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	host := func(name string, away time.Duration) *infrav1.Host {
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}, Spec: infrav1.HostSpec{Approval: infrav1.HostApprovalApproved}}
		h.Status.BootID, h.Status.CleanProof, h.Status.Inventory.Architecture = "boot", &infrav1.CleanProof{}, "amd64"
		h.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		if away > 0 {
			h.Status.Conditions = []metav1.Condition{{Type: infrav1.AgentConnectedCondition, Status: "False", Reason: infrav1.HostHeartbeatStaleReason, LastTransitionTime: metav1.NewTime(now.Add(-away))}}
		}
		return h
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "a"}}
	cluster.Status.Conditions = []metav1.Condition{{Type: clusterv1.ClusterAvailableCondition, Status: "True", LastTransitionTime: metav1.NewTime(now)}}
	run := &lifecyclev1.LifecycleRun{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "r"}, Spec: lifecyclev1.LifecycleRunSpec{
		ClusterName: "a", PolicyName: "p", Hook: lifecyclev1.BeforeClusterUpgrade, Mode: lifecyclev1.ModeEnforce,
		Steps:    []lifecyclev1.Step{{Name: "ask", Approval: &lifecyclev1.ApprovalStep{}}},
		Progress: []lifecyclev1.StepProgress{{Name: "ask", StartTime: metav1.NewTime(now.Add(-time.Minute))}},
	}}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(host("free", 0), host("young", time.Second), host("away", time.Hour), cluster, run).Build()
	collector := stateCollector{reader, func() time.Time { return now }}
	if err := testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP slipway_cluster_states Clusters by namespace and the role of their state, as `+"`slipway status`"+` and the console have it: ok, work, wait, bad or off.
# TYPE slipway_cluster_states gauge
slipway_cluster_states{namespace="prod",role="wait"} 1
# HELP slipway_host_states Hosts by namespace and the role of their state, as `+"`slipway status`"+` and the console have it: ok, work, wait, bad, free or off.
# TYPE slipway_host_states gauge
slipway_host_states{namespace="prod",role="bad"} 1
slipway_host_states{namespace="prod",role="free"} 1
slipway_host_states{namespace="prod",role="off"} 1
`)); err != nil {
		t.Error(err)
	}
}
