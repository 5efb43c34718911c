package fakehost

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Node is the host's Node in its workload cluster and the pods on it, in memory.
type Node struct {
	mu   sync.Mutex
	node corev1.Node
	pods []corev1.Pod
	// Server is the version of the API server.
	Server string
	// Config is kubeadm's ClusterConfiguration, and ConfigFails why it cannot be read.
	Config      string
	ConfigFails error
	// Budgets are the names of pods that a disruption budget holds.
	Budgets []string
	// Evicted are the names of pods that were evicted.
	Evicted []string
	// Down makes every request fail as one to a server that is away.
	Down bool
	// Fails is what every request fails with instead, when it is set.
	Fails error
	// Conflicts is how many writes to come fail with a conflict.
	Conflicts int
}

// NewNode is a ready Node of a version.
func NewNode(version string) *Node {
	n := &Node{Server: version}
	n.node.Name, n.node.ResourceVersion = "host-1", "1"
	n.Report(version, time.Time{})
	return n
}

// Report is what a kubelet of the version says of itself.
func (n *Node) Report(version string, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.node.Status.NodeInfo.KubeletVersion = version
	n.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(now)}}
}

// AddPod binds a pod to the Node. Owner is the kind of its controller, or empty.
func (n *Node) AddPod(name, owner string, change ...func(*corev1.Pod)) {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	if owner != "" {
		yes := true
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Name: "owner", Controller: &yes}}
	}
	for _, c := range change {
		c(&pod)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods = append(n.pods, pod)
}

// Change edits the Node as an administrator does.
func (n *Node) Change(change func(*corev1.Node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.node)
	n.touch()
}

func (n *Node) touch() {
	version, _ := strconv.Atoi(n.node.ResourceVersion)
	n.node.ResourceVersion = strconv.Itoa(version + 1)
}

func (n *Node) away() error {
	if n.Fails != nil {
		return n.Fails
	}
	if n.Down {
		return fmt.Errorf("connect: connection refused")
	}
	return nil
}

// Get implements upgrade.Node.
func (n *Node) Get(context.Context) (*corev1.Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.node.DeepCopy(), n.away()
}

// SetUnschedulable implements upgrade.Node.
func (n *Node) SetUnschedulable(_ context.Context, node *corev1.Node, unschedulable bool, annotation, value string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.away(); err != nil {
		return err
	}
	if n.Conflicts > 0 || node.ResourceVersion != n.node.ResourceVersion {
		n.Conflicts--
		return apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, n.node.Name, fmt.Errorf("changed"))
	}
	if n.node.Annotations == nil {
		n.node.Annotations = map[string]string{}
	}
	n.node.Annotations[annotation] = value
	if value == "" {
		delete(n.node.Annotations, annotation)
	}
	n.node.Spec.Unschedulable = unschedulable
	n.touch()
	return nil
}

// SetProviderID implements adopt.Node, as the API server validates it.
func (n *Node) SetProviderID(_ context.Context, node *corev1.Node, providerID string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.away(); err != nil {
		return err
	}
	if had := n.node.Spec.ProviderID; node.UID != n.node.UID || (had != "" && had != providerID) {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, n.node.Name, nil)
	}
	n.node.Spec.ProviderID = providerID
	n.touch()
	return nil
}

// Pods implements upgrade.Node.
func (n *Node) Pods(context.Context) ([]corev1.Pod, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.pods), n.away()
}

// Evict implements upgrade.Node.
func (n *Node) Evict(_ context.Context, pod *corev1.Pod) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Contains(n.Budgets, pod.Name) {
		return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	}
	n.Evicted = append(n.Evicted, pod.Name)
	n.pods = slices.DeleteFunc(n.pods, func(p corev1.Pod) bool { return p.Name == pod.Name })
	return n.away()
}

// ServerVersion implements upgrade.Node.
func (n *Node) ServerVersion(context.Context) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.Server, n.away()
}

// ClusterConfiguration implements upgrade.Node.
func (n *Node) ClusterConfiguration(context.Context) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ConfigFails != nil {
		return "", n.ConfigFails
	}
	return n.Config, n.away()
}
