package adopt

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/workload"
	"github.com/slipway-dev/slipway/internal/agent/hostos/inventory"
	"github.com/slipway-dev/slipway/internal/host"
)

// What kubeadm leaves on every node, and on those of a control plane.
const (
	kubeletConfiguration = "/var/lib/kubelet/config.yaml"
	manifests            = "/etc/kubernetes/manifests/"
	controlPlaneLabel    = "node-role.kubernetes.io/control-plane"
)

var controlPlaneManifests = []string{"kube-apiserver.yaml", "kube-controller-manager.yaml", "kube-scheduler.yaml", "etcd.yaml"}

// refuse is for good, wait for what passes by itself or can be mended on the host.
func refuse(reason, format string, args ...any) error {
	return &operation.Error{Reason: reason, Retry: operation.RetryNever, Message: fmt.Sprintf(format, args...)}
}

func wait(reason, format string, args ...any) error {
	return &operation.Error{Reason: reason, Retry: operation.RetryLater, Message: fmt.Sprintf(format, args...)}
}

// check makes sure that the host is a live worker node of the very cluster that asks,
// and returns its Node. It changes nothing.
func (a Adopter) check(ctx context.Context, requested operation.Adoption, state journal.State) (Node, *corev1.Node, error) {
	if state.Residue != journal.ResidueNone && state.ResidueGeneration != state.ClaimGeneration {
		return nil, nil, refuse(operation.ReasonNotAWorkerNode, "what runs on this host was bootstrapped by this agent for an earlier claim; release it instead")
	}
	if err := a.checkFiles(); err != nil {
		return nil, nil, err
	}
	trusted, err := a.checkCluster(requested)
	if err != nil {
		return nil, nil, err
	}
	if _, err := a.Runner.Run(ctx, "systemctl", "is-active", "--quiet", "kubelet"); err != nil {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		return nil, nil, wait(operation.ReasonKubeletInactive, "the kubelet of this host does not run; start it, or delete the Machine to give up the adoption")
	}
	client, err := a.Connect(trusted)
	if err != nil {
		return nil, nil, refuse(operation.ReasonNotAWorkerNode, "%v", err)
	}
	node, err := client.Get(ctx)
	if err == nil {
		return client, node, a.checkNode(node, requested)
	}
	unknown := x509.UnknownAuthorityError{}
	switch {
	case errors.As(err, &unknown):
		return nil, nil, refuse(operation.ReasonOtherCluster, "the API server that the kubelet of this host uses is not of the cluster of the Machine: %v", err)
	case apierrors.IsNotFound(err):
		return nil, nil, wait(operation.ReasonNodeNotReported, "the kubelet of this host has no Node; restart it, or join the host again")
	}
	return nil, nil, operation.Unreachable(err, "read the Node of this host")
}

// checkFiles tells a worker from a control plane, and from what was left by a node that
// is gone.
func (a Adopter) checkFiles() error {
	for _, name := range controlPlaneManifests {
		if _, err := os.Stat(a.Root.Path(manifests + name)); err == nil {
			return refuse(operation.ReasonControlPlaneHost, "this host is of a control plane (%s): only workers are adopted", manifests+name)
		}
	}
	for _, path := range []string{workload.KubeletConfig, kubeletConfiguration} {
		if _, err := os.Stat(a.Root.Path(path)); err != nil {
			return refuse(operation.ReasonNotAWorkerNode, "this host is no node that kubeadm joined: there is no %s. Take off what is left of one with kubeadm reset, "+
				"and the host becomes available", path)
		}
	}
	return nil
}

// checkCluster returns those certificate authorities of the kubelet that are of the
// cluster that asks. A host must never come into the hands of another one.
func (a Adopter) checkCluster(requested operation.Adoption) ([]byte, error) {
	authorities, err := workload.Authorities(a.Root.Path(workload.KubeletConfig))
	if err != nil {
		return nil, refuse(operation.ReasonNotAWorkerNode, "%v", err)
	}
	trusted := host.TrustedCAs(authorities, requested.ClusterCAs)
	if len(trusted) == 0 {
		return nil, refuse(operation.ReasonOtherCluster, "this host is a node of another cluster: its kubelet trusts the certificate authority %s, and that of the Machine's cluster is %s. "+
			"Ask by a Machine of the cluster it is in", strings.Join(host.HashCAs(authorities), ", "), strings.Join(requested.ClusterCAs, ", "))
	}
	return trusted, nil
}

// checkNode holds the Node against the host and the operation.
func (a Adopter) checkNode(node *corev1.Node, requested operation.Adoption) error {
	_, controlPlane := node.Labels[controlPlaneLabel]
	info, boot := node.Status.NodeInfo, inventory.BootID(a.Root)
	switch {
	case controlPlane:
		return refuse(operation.ReasonControlPlaneHost, "Node %s has the label %s: only workers are adopted", node.Name, controlPlaneLabel)
	case node.Spec.ProviderID != "" && node.Spec.ProviderID != requested.ProviderID:
		return refuse(operation.ReasonProviderIDTaken, "Node %s has the providerID %s already, which nobody can change: it belongs to another provider or Machine. "+
			"Drain it, take it off with kubeadm reset, and let the host be bootstrapped", node.Name, node.Spec.ProviderID)
	case boot == "" || info.BootID != boot:
		return wait(operation.ReasonNodeNotReported, "Node %s was reported in the boot %q, and this host runs in %q: its kubelet has not reported since the host was booted, "+
			"or its credential was copied from another host", node.Name, info.BootID, boot)
	case requested.Version != "" && info.KubeletVersion != requested.Version:
		return refuse(operation.ReasonVersionMismatch, "the kubelet of this host is of %s, and the Machine asks for %s: adoption upgrades nothing. Set spec.version of the Machine to %s",
			info.KubeletVersion, requested.Version, info.KubeletVersion)
	}
	return nil
}
