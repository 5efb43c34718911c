package effects

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/hostos/kubelet"
	"github.com/slipway-dev/slipway/internal/host"
)

const (
	// registerTimeout bounds the wait for a kubelet that kubeadm has started.
	registerTimeout = time.Minute
	registerPause   = 200 * time.Millisecond
)

// registered waits until the kubelet has registered its Node, and from then on keeps
// it from doing so again. A host that comes back after its Machine was replaced would
// otherwise be a node once more, from its boot until its reset. Where kubeadm left no
// credential to look with, or no Node appears, the kubelet stays as it is: whether a
// machine has a Node is Cluster API's to judge.
func (e *Executor) registered(ctx context.Context, requested operation.Bootstrap, progress operation.Progress) error {
	node, err := e.awaitNode(ctx)
	switch {
	case err != nil || node == nil:
		return err
	case foreign(node.Spec.ProviderID, requested.ProviderID):
		return e.leftBehind(ctx, node, requested.ProviderID)
	}
	return e.applyArguments(requested, true, progress)
}

// leftBehind is what keeps a host from joining with a Node that has another providerID of this provider, which
// nothing can change. No Machine has a Node of an earlier claim of this host, since the manager claims no host
// before all of those are gone, so a control plane deletes it. A worker may not, and waits as long as it takes.
func (e *Executor) leftBehind(ctx context.Context, node *corev1.Node, ours string) error {
	left := &operation.Error{Reason: operation.ReasonNodeExists, Retry: operation.RetryWhenAccepted}
	namespace, name, _, _ := host.ParseProviderID(node.Spec.ProviderID)
	if ourNamespace, ourName, _, _ := host.ParseProviderID(ours); namespace != ourNamespace || name != ourName {
		left.Tries = operation.PatientTries
		left.Message = fmt.Sprintf("Node %s is that of another host (%s), which has the same hostname; rename one of the two, or, if that host is gone, delete it "+
			"in this cluster by `kubectl delete node %[1]s`", node.Name, operation.Truncate(node.Spec.ProviderID, maxProviderID))
		return left
	}
	err := e.DeleteNode(ctx, node)
	left.Message = fmt.Sprintf("Node %s was still that of an earlier machine on this host (%s), which Cluster API failed to delete in time. ", node.Name,
		operation.Truncate(node.Spec.ProviderID, maxProviderID))
	if err == nil || apierrors.IsNotFound(err) {
		left.Message += "This control plane deleted it, and the host tries again by itself"
		return left
	}
	e.Log.Warn("the Node of an earlier machine on this host is not deleted", "err", err)
	left.Message += "Delete it in this cluster by `kubectl delete node " + node.Name + "`, and the host tries again by itself"
	return left
}

// maxProviderID is how much of a providerID a message has, in bytes: 3 names, as the API bounds them.
const maxProviderID = 600

// Node implements operation.Executor.
func (e *Executor) Node() (claimID string, registered bool, err error) {
	args, _, err := kubelet.Applied(e.Root)
	_, _, claimID, ok := host.ParseProviderID(args.ProviderID)
	return claimID, ok && args.Registered, err
}

// registerAnew lets the kubelet make its Node once more, with the next boot, when that is
// gone for certain. Only the claim that holds the host requests a reboot, so the host is to
// be a node.
func (e *Executor) registerAnew(ctx context.Context) error {
	client, err := e.Upgrader.Connect()
	if err != nil {
		return nil //nolint:nilerr // without a credential there is no Node to look for
	}
	if _, err := client.Get(ctx); !apierrors.IsNotFound(err) {
		return nil
	}
	e.Log.Warn("the Node is gone; the kubelet registers it anew in the next boot")
	return kubelet.SetRegistered(e.Root, false)
}

// Rebooted implements operation.Executor. It ends what registerAnew began, as registered
// does after a bootstrap.
func (e *Executor) Rebooted(ctx context.Context, bootID string, progress operation.Progress) error {
	if err := e.pinNode(ctx); err != nil {
		return err
	}
	return e.Upgrader.Rebooted(ctx, bootID, progress)
}

// pinNode keeps the kubelet from registering its Node again, once that is there.
func (e *Executor) pinNode(ctx context.Context) error {
	pinned, err := kubelet.Registered(e.Root)
	if err != nil || pinned {
		return err
	}
	node, err := e.awaitNode(ctx)
	if err != nil || node == nil {
		return err
	}
	return kubelet.SetRegistered(e.Root, true)
}

// awaitNode waits for the Node of the kubelet. It returns nil when there is no credential to
// look with, or no Node appears.
func (e *Executor) awaitNode(ctx context.Context) (*corev1.Node, error) {
	client, err := e.Upgrader.Connect()
	if err != nil {
		return nil, nil //nolint:nilerr // see above
	}
	for deadline := e.Upgrader.Now().Add(registerTimeout); ; {
		node, err := client.Get(ctx)
		if err == nil {
			return node, nil
		}
		if e.Upgrader.Now().After(deadline) {
			e.Log.Warn("the kubelet has not registered its Node", "err", err)
			return nil, nil
		}
		if err := e.Upgrader.Sleep(ctx, registerPause); err != nil {
			return nil, err
		}
	}
}

// foreign says whether a Node belongs to another claim of this host. A kubelet never
// changes the providerID of a Node it finds.
func foreign(has, ours string) bool {
	return ours != "" && has != ours && strings.HasPrefix(has, infrav1.ProviderIDPrefix)
}
