package change

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// successor is the Host there that the agent of source goes over to. What the manager makes
// of the agent's report is left to it, and so are words that were for the time here:
// annotations, spec.unschedulable and spec.evacuate.
func successor(source *infrav1.Host, namespace string) *infrav1.Host {
	h := &infrav1.Host{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: source.Name, Labels: maps.Clone(source.Labels), Finalizers: []string{infrav1.HostFinalizer}},
		Spec: infrav1.HostSpec{
			HostID: source.Spec.HostID, Approval: source.Spec.Approval, FailureDomain: source.Spec.FailureDomain, ResetPolicy: source.Spec.ResetPolicy,
			ClaimGeneration: source.Spec.ClaimGeneration, ClearedGeneration: source.DeepCopy().Spec.ClearedGeneration,
		},
	}
	maps.DeleteFunc(h.Labels, func(key, _ string) bool { return host.IsHardwareLabel(key) })
	if host.Approved(source) {
		// Without a word it would be up to the policy there, as for a host that enrolls.
		h.Spec.Approval = infrav1.HostApprovalApproved
	}
	return h
}

// refuse says why the host does not go to the namespace; target is the Host there, nil when
// there is none. One that is under way goes on: its agent may be gone from here.
func refuse(source, target *infrav1.Host, namespace string) error {
	underWay := target != nil && host.Successor(source, target)
	err := refuseTaken(source, namespace)
	if err == nil && target != nil {
		if err := refuseTarget(source, target); err != nil {
			return err
		}
	}
	if err == nil && !underWay {
		err = refuseNow(source, namespace)
	}
	if err != nil && target != nil && !underWay && target.Spec.HostID == source.Spec.HostID && !host.Connected(target) {
		// It has the key of a host that stays, and counts as its clone.
		return fmt.Errorf("%w. The Host %s, which an earlier run made for it, is left over: delete it with `%s`", err, key(target), deletion(target))
	}
	return err
}

// refuseTaken says why a host goes nowhere, whatever its agent does, or goes elsewhere.
func refuseTaken(h *infrav1.Host, namespace string) error {
	switch {
	case h.Spec.HostID == "":
		return fmt.Errorf("the Host %s is not enrolled yet (spec.hostID is empty), so there is no agent that could go: enroll its machine in namespace %s instead, with `slipway host token %s -n %s`",
			key(h), namespace, h.Name, namespace)
	case h.Spec.Claim != nil:
		return fmt.Errorf("HostMachine %s of Cluster %s has the Host %s (spec.claim): delete its Machine, or set spec.evacuate of the Host where it is one of a pool, and assign the host once it is %s",
			h.Spec.Claim.MachineName, h.Spec.Claim.ClusterName, key(h), infrav1.HostPhaseAvailable)
	case host.Leaving(h) && h.Spec.AssignedNamespace != namespace:
		return fmt.Errorf("the Host %s is on its way to namespace %s (spec.assignedNamespace): finish that with `slipway host assign %s -n %s --to %s`; as long as there is no Host %s/%s, "+
			"`%s` takes it back",
			key(h), h.Spec.AssignedNamespace, h.Name, h.Namespace, h.Spec.AssignedNamespace, h.Spec.AssignedNamespace, h.Name, takeBack(h.Namespace, h.Name))
	}
	return nil
}

// refuseNow says why a host does not set out now.
func refuseNow(h *infrav1.Host, namespace string) error {
	state := host.StateOf(h)
	switch {
	case !h.DeletionTimestamp.IsZero():
		return fmt.Errorf("the Host %s is being deleted: enroll its machine in namespace %s once it is gone, with `slipway host token %s -n %s`", key(h), namespace, h.Name, namespace)
	case state.Phase != infrav1.HostPhaseAvailable:
		return fmt.Errorf("the Host %s is %s, and only one that is %s can be assigned: %s", key(h), state.Phase, infrav1.HostPhaseAvailable, state.Message)
	case !host.Connected(h):
		return fmt.Errorf("the agent of the Host %s is not connected, so it would not go: look at power, network and `systemctl status slipway-agent` of its machine%s", key(h), disconnected(h))
	}
	return nil
}

// refuseTarget says why the Host there is not the one that the agent goes to.
func refuseTarget(source, target *infrav1.Host) error {
	switch {
	case target.Spec.HostID == "":
		return fmt.Errorf("there is a Host %s that waits for another machine (spec.hostID is empty): delete it with `%s` if nobody needs it", key(target), deletion(target))
	case target.Spec.HostID != source.Spec.HostID:
		return fmt.Errorf("there is a Host %s that belongs to another machine: its spec.hostID is %s, and that of %s %s. Delete it with `%s` if nobody needs it",
			key(target), target.Spec.HostID, key(source), source.Spec.HostID, deletion(target))
	case !target.DeletionTimestamp.IsZero():
		return fmt.Errorf("the Host %s is being deleted: try again once it is gone", key(target))
	case !host.Successor(source, target) && host.Connected(target):
		return fmt.Errorf("the Host %s has the same spec.hostID and a connected agent: if that is this machine, delete the Host that it left with `%s`; if it is a clone of it, see \"Cloned disks\" in docs/hosts.md",
			key(target), deletion(source))
	case host.Leaving(target):
		return fmt.Errorf("the Host %s is itself assigned to namespace %s: unset its spec.assignedNamespace", key(target), target.Spec.AssignedNamespace)
	case !host.Connected(target) && target.Spec.ClaimGeneration < source.Spec.ClaimGeneration:
		return fmt.Errorf("the Host %s has spec.claimGeneration %d, and the host has served %d: its agent would refuse it. Delete it with `%s`, and run the same command again, which makes it anew",
			key(target), target.Spec.ClaimGeneration, source.Spec.ClaimGeneration, deletion(target))
	}
	return nil
}

func key(h *infrav1.Host) string { return client.ObjectKeyFromObject(h).String() }

// takeBack is the command that ends an assignment.
func takeBack(namespace, name string) string {
	return fmt.Sprintf(`kubectl -n %s patch host %s --type=merge -p '{"spec":{"assignedNamespace":null}}'`, namespace, name)
}

// arrived says whether the agent is at a Host. That it has reported there counts besides the
// heartbeat, whose Lease may be that of a Host that had the name a moment ago.
func arrived(h *infrav1.Host) bool { return host.Connected(h) && h.Status.BootID != "" }

func deletion(h *infrav1.Host) string {
	return fmt.Sprintf("kubectl -n %s delete host %s", h.Namespace, h.Name)
}

// disconnected is what the manager says of an agent that is not connected.
func disconnected(h *infrav1.Host) string {
	c := meta.FindStatusCondition(h.Status.Conditions, infrav1.AgentConnectedCondition)
	if c == nil || c.Message == "" {
		return ""
	}
	return ". " + c.Message
}
