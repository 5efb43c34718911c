package effects

import (
	"context"
	"strings"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/hostos/kubelet"
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
func (e *Executor) registered(ctx context.Context, order operation.Bootstrap) error {
	client, err := e.Upgrader.Connect()
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	for deadline := e.Upgrader.Now().Add(registerTimeout); ; {
		node, err := client.Get(ctx)
		switch {
		case err == nil && foreign(node.Spec.ProviderID, order.ProviderID):
			return &operation.Error{Reason: operation.ReasonNodeExists, Retry: operation.RetryAfterReset, Message: "Node " + node.Name +
				" is still that of an earlier machine on this host (" + node.Spec.ProviderID + "); it has to be deleted first"}
		case err == nil:
			return kubelet.Apply(e.Root, kubelet.Arguments{ProviderID: order.ProviderID, NodeIP: e.NodeIP, Registered: true})
		case e.Upgrader.Now().After(deadline):
			e.Log.Warn("the kubelet has not registered its Node", "error", err)
			return nil
		}
		if err := e.Upgrader.Sleep(ctx, registerPause); err != nil {
			return err
		}
	}
}

// foreign says whether a Node belongs to another claim of this host. A kubelet never
// changes the providerID of a Node it finds.
func foreign(has, ours string) bool {
	return ours != "" && has != ours && strings.HasPrefix(has, infrav1.ProviderIDPrefix)
}
