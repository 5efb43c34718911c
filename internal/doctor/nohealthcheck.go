package doctor

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
)

var _ = register(Check{
	Layer:  Housekeeping + 6,
	Name:   "NoHealthCheck",
	Effect: Remark,
	Means:  "no MachineHealthCheck selects some workers of a cluster: one whose Node is lost stays until somebody deletes its Machine",
	Remedy: "Create a MachineHealthCheck, as the released templates and `slipway cluster create` do. The command has one for all workers of the cluster.",
	find: func(s *Snapshot) []Finding {
		if !s.knows("MachineHealthCheck") {
			return nil
		}
		unchecked := map[string][]string{}
		for _, m := range s.MachinesOnHosts() {
			if !util.IsControlPlaneMachine(m) && m.DeletionTimestamp.IsZero() && !s.healthChecked(m) {
				key := m.Namespace + "/" + m.Spec.ClusterName
				unchecked[key] = append(unchecked[key], m.Name)
			}
		}
		return each(s.Clusters, func(c *clusterv1.Cluster) (Finding, bool) {
			machines := unchecked[c.Namespace+"/"+c.Name]
			if len(machines) == 0 || !c.DeletionTimestamp.IsZero() {
				return none()
			}
			f := atCluster(c, Note).since(c.CreationTimestamp.Time).next("echo %s | kubectl apply -f -", workersCheck(c))
			f.Message = fmt.Sprintf("No MachineHealthCheck selects %d of its workers: nobody replaces one whose Node is lost", len(machines))
			return f, true
		})
	},
})

// healthChecked says whether a MachineHealthCheck selects a Machine, as core does.
func (s *Snapshot) healthChecked(m *clusterv1.Machine) bool {
	for i := range s.MachineHealthChecks {
		check := &s.MachineHealthChecks[i]
		selector, err := metav1.LabelSelectorAsSelector(&check.Spec.Selector)
		if err == nil && check.Namespace == m.Namespace && check.Spec.ClusterName == m.Spec.ClusterName && selector.Matches(labels.Set(m.Labels)) {
			return true
		}
	}
	return false
}

// workersCheck is a MachineHealthCheck for all workers of a Cluster, with the limits of the released
// templates.
func workersCheck(c *clusterv1.Cluster) string {
	type fields = map[string]any
	check, err := json.Marshal(fields{
		"apiVersion": clusterv1.GroupVersion.String(), "kind": "MachineHealthCheck",
		"metadata": fields{"namespace": c.Namespace, "name": c.Name + "-workers"},
		"spec": fields{
			"clusterName": c.Name,
			"selector":    fields{"matchExpressions": []fields{{"key": clusterv1.MachineControlPlaneLabel, "operator": metav1.LabelSelectorOpDoesNotExist}}},
			"checks": fields{
				"nodeStartupTimeoutSeconds": 0,
				"unhealthyNodeConditions":   []fields{{"type": "Ready", "status": "Unknown", "timeoutSeconds": 900}},
			},
		},
	})
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(check)
}
