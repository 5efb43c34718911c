package simagent

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

// Node is what a kubelet registers.
type Node struct{ Name, ProviderID, Version string }

// Nodes makes a Node in the workload cluster when a host joins it. It may be
// called again for the same host.
type Nodes interface {
	Join(ctx context.Context, node Node) error
}

// Kubelets registers Nodes with an API server as kubelets do: one create, and one
// write of the status when the Node is ready. A Node that an earlier machine left
// fails the bootstrap, as in the real agent.
type Kubelets struct{ Client kubernetes.Interface }

// Join implements Nodes.
func (k Kubelets) Join(ctx context.Context, n Node) error {
	if n.Name == "" || n.ProviderID == "" {
		return errNoName
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{
			corev1.LabelHostname: n.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		}},
		Spec: corev1.NodeSpec{ProviderID: n.ProviderID},
	}
	nodes := k.Client.CoreV1().Nodes()
	created, err := nodes.Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		created, err = nodes.Get(ctx, n.Name, metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("register Node %s: %w", n.Name, err)
	}
	if created.Spec.ProviderID != n.ProviderID {
		return &operation.Error{Reason: operation.ReasonNodeExists, Retry: operation.RetryWhenAccepted, Message: "Node " + n.Name + " is still that of an earlier machine"}
	}
	now := metav1.NewTime(time.Now())
	created.Status.NodeInfo = corev1.NodeSystemInfo{
		KubeletVersion: n.Version, OperatingSystem: "linux", Architecture: "amd64", ContainerRuntimeVersion: "containerd://2.2.0",
	}
	created.Status.Conditions = nil
	for kind, status := range map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeMemoryPressure: corev1.ConditionFalse, corev1.NodeDiskPressure: corev1.ConditionFalse,
		corev1.NodePIDPressure: corev1.ConditionFalse, corev1.NodeReady: corev1.ConditionTrue,
	} {
		created.Status.Conditions = append(created.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, Reason: "Simulated", LastHeartbeatTime: now, LastTransitionTime: now,
		})
	}
	if _, err := nodes.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("report Node %s: %w", n.Name, err)
	}
	return nil
}
