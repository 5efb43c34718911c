package host

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostapprovalpolicies,verbs=get;list;watch

// approve lets a host be claimed that waits for it, once the policy of its namespace fits:
// the policy is another one now, or the agent told the machine-id. A cache that is behind
// approves nothing.
func (r *Reconciler) approve(ctx context.Context, s *scope) (bool, error) {
	if s.host.Spec.Approval != infrav1.HostApprovalPending {
		return true, nil
	}
	for _, reader := range []client.Reader{r.Client, r.APIReader} {
		policy, err := approvalPolicy(ctx, reader, s.host.Namespace)
		if err != nil {
			return false, err
		}
		if host.Approval(s.host, policy) != infrav1.HostApprovalApproved {
			return true, nil
		}
	}
	before := s.host.DeepCopy()
	s.host.Spec.Approval = infrav1.HostApprovalApproved
	if err := r.Client.Patch(ctx, s.host, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, fmt.Errorf("approve the host: %w", err)
	}
	r.Recorder.Eventf(s.host, nil, "Normal", "Approved", "Enroll", "HostApprovalPolicy %s approved the host", infrav1.HostApprovalPolicyName)
	return false, nil
}

// approvalPolicy is the policy of a namespace; nil while there is none.
func approvalPolicy(ctx context.Context, reader client.Reader, namespace string) (*infrav1.HostApprovalPolicy, error) {
	policy := &infrav1.HostApprovalPolicy{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: infrav1.HostApprovalPolicyName}, policy)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get HostApprovalPolicy %s: %w", infrav1.HostApprovalPolicyName, err)
	}
	return policy, nil
}
