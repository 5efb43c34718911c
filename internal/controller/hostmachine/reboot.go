package hostmachine

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// rebootRetry is when to look again whether a reboot that is held back may begin.
const rebootRetry = 10 * time.Second

// drains says whether a reboot with a drain is wanted that was not requested of the host yet.
func drains(s *scope) bool {
	return s.hostMachine.Spec.RebootPolicy == infrav1.RebootDrain && s.host != nil && s.host.Spec.Desired != nil &&
		ptr.Deref(s.hostMachine.Spec.Reboots, 0) > ptr.Deref(s.host.Spec.Desired.Reboots, 0)
}

// drainsControlPlane says whether the request has to see those of the other control planes.
func drainsControlPlane(s *scope) bool { return drains(s) && host.OfControlPlane(s.host) }

// holdReboot says why a reboot that drains must wait: its agent would not drain, or another host of the
// control plane is away, as live reads tell.
func (r *Reconciler) holdReboot(ctx context.Context, s *scope) error {
	if !drains(s) {
		return nil
	}
	if !host.AgentCurrent(s.host, r.Version) {
		s.rebootHeld = fmt.Sprintf("its agent is %s, and drains no Node before it is of the manager's minor version", s.host.Status.Inventory.AgentVersion)
		return nil
	}
	if !drainsControlPlane(s) {
		return nil
	}
	hosts := &infrav1.HostList{}
	if err := r.APIReader.List(ctx, hosts, client.InNamespace(s.host.Namespace)); err != nil {
		return fmt.Errorf("look for other hosts of the control plane: %w", err)
	}
	for i := range hosts.Items {
		other := &hosts.Items[i]
		if !sameControlPlane(other, s.host) || !host.Busy(other) {
			continue
		}
		s.rebootHeld = fmt.Sprintf("Host %s of the same control plane is %s", other.Name, host.StateOf(other).Phase)
		s.requeueAfter = rebootRetry
	}
	return nil
}
