package step

import (
	"crypto/sha256"
	"encoding/hex"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

const maxName = 63

// shorten keeps names as they are up to 63 characters; of longer ones a hash of the
// whole replaces the end.
func shorten(name string) string {
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:])[:10]
	return name[:maxName-len(hash)-1] + "-" + hash
}

// Labels returns the labels of what a step creates: values that are too long for a
// label are shortened.
func Labels(run *lifecyclev1.LifecycleRun, step string) map[string]string {
	return map[string]string{
		clusterv1.ClusterNameLabel: shorten(run.Spec.ClusterName),
		lifecyclev1.PolicyLabel:    shorten(run.Spec.PolicyName),
		lifecyclev1.HookLabel:      string(run.Spec.Hook),
		lifecyclev1.RunLabel:       shorten(run.Name),
		lifecyclev1.StepLabel:      step,
	}
}
