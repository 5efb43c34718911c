package hooks

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// newRun returns an attempt with all that the policy says now. The Cluster owns it,
// so that it goes with the Cluster, and clusterctl move takes it along.
func newRun(e event, c call, policy *lifecyclev1.LifecyclePolicy, attempt int32) *lifecyclev1.LifecycleRun {
	mode := policy.Spec.Mode
	if mode == "" {
		mode = lifecyclev1.ModeEnforce
	}
	run := &lifecyclev1.LifecycleRun{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.cluster.Namespace,
			Name:      c.runName(attempt),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster",
				Name: e.cluster.Name, UID: e.cluster.UID, BlockOwnerDeletion: ptr.To(false),
			}},
		},
		Spec: lifecyclev1.LifecycleRunSpec{
			ClusterName:      e.cluster.Name,
			PolicyName:       policy.Name,
			PolicyGeneration: policy.Generation,
			Mode:             mode,
			Hook:             e.hook,
			Request:          e.request,
			Attempt:          attempt,
			Steps:            policy.DeepCopy().Steps(e.hook),
		},
	}
	run.Labels = step.Labels(run, "")
	delete(run.Labels, lifecyclev1.RunLabel)
	delete(run.Labels, lifecyclev1.StepLabel)
	return run
}

func ownedBy(run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster) bool {
	return slices.ContainsFunc(run.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.UID == cluster.UID
	})
}

const (
	// maxMessage bounds the message of one policy, in bytes.
	maxMessage = 2048
	// maxMessages bounds the messages of all policies together. Cluster API writes them to a
	// condition of the Cluster, which may have 32 KiB, beside those of other extensions.
	maxMessages = 16 << 10
)

// failures are the errors of all policies that fail.
type failures []error

// Error implements error.
func (f failures) Error() string {
	messages := make([]string, len(f))
	for i, err := range f {
		messages[i] = err.Error()
	}
	return join(messages, "\n")
}

// Unwrap returns the errors.
func (f failures) Unwrap() []error { return f }

// join joins the messages of policies and shortens each to its share of the whole.
func join(messages []string, separator string) string {
	share := maxMessage
	if n := len(messages); n > 0 {
		share = min(share, max(0, maxMessages/n-len(separator)))
	}
	short := make([]string, len(messages))
	for i, message := range messages {
		short[i] = step.Cut(message, share)
	}
	return step.Cut(strings.Join(short, separator), maxMessages)
}

const ellipsis = "…"
