package step

import (
	"crypto/sha256"
	"encoding/hex"
	"unicode/utf8"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

const maxName = 63

// Shorten keeps names as they are up to the limit; of longer ones a hash of the whole replaces
// the end.
func Shorten(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:])[:10]
	return name[:limit-len(hash)-1] + "-" + hash
}

// Labels returns the labels of what a step creates: values that are too long for a
// label are shortened.
func Labels(run *lifecyclev1.LifecycleRun, step string) map[string]string {
	return map[string]string{
		clusterv1.ClusterNameLabel: Shorten(run.Spec.ClusterName, maxName),
		lifecyclev1.PolicyLabel:    Shorten(run.Spec.PolicyName, maxName),
		lifecyclev1.HookLabel:      string(run.Spec.Hook),
		lifecyclev1.RunLabel:       Shorten(run.Name, maxName),
		lifecyclev1.StepLabel:      step,
	}
}

// Cut shortens a text to a number of bytes, between two characters.
func Cut(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	const ellipsis = "…"
	end := longest - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
