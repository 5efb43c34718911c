package capi

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/cluster-api/feature"
)

// defaultGates are the feature gates of Cluster API that a plane turns on. All but
// MachineTaintPropagation are needed; that one acts only for Machines with spec.taints,
// which without it are accepted and have no effect.
const defaultGates = "ClusterTopology=true,MachinePool=true,RuntimeSDK=true,InPlaceUpdates=true,MachineTaintPropagation=true"

// requiredGates are those without which a plane cannot do what `slipway up` promises.
var requiredGates = []struct {
	gate featuregate.Feature
	why  string
}{
	{feature.ClusterTopology, "the clusters of `slipway up` have a ClusterClass"},
	{feature.MachinePool, "the ClusterClass of `slipway up` has machine pools"},
	{feature.RuntimeSDK, "lifecycle policies are runtime extensions"},
}

// FeatureGateError says which of the given feature gates cannot be.
type FeatureGateError struct {
	// Problem and remedy in one sentence.
	Problem string
}

func (e *FeatureGateError) Error() string { return "--feature-gates: " + e.Problem }

// CheckFeatureGates tells whether gates ("Name=true,Other=false") can be set on a plane;
// the error is a *FeatureGateError.
func CheckFeatureGates(gates string) error {
	return setGates(feature.MutableGates.DeepCopy(), gates)
}

// setGates sets the defaults, then what was asked for.
func setGates(to featuregate.MutableFeatureGate, gates string) error {
	if err := to.Set(defaultGates); err != nil {
		return fmt.Errorf("feature gates of the plane: %w", err)
	}
	known := to.GetAll()
	for entry := range strings.SplitSeq(gates, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(entry), "=")
		if _, ok := known[featuregate.Feature(strings.TrimSpace(name))]; name != "" && !ok {
			return &FeatureGateError{fmt.Sprintf("Cluster API has no feature gate %q; it has %s", name, strings.Join(names(known), ", "))}
		}
		if name != "" && value == "" {
			return &FeatureGateError{fmt.Sprintf("%s: want %s=true or %s=false", name, name, name)}
		}
	}
	if err := to.Set(gates); err != nil {
		return &FeatureGateError{err.Error()}
	}
	for _, r := range requiredGates {
		if !to.Enabled(r.gate) {
			return &FeatureGateError{fmt.Sprintf("%s cannot be off: %s", r.gate, r.why)}
		}
	}
	return nil
}

func names(known map[featuregate.Feature]featuregate.FeatureSpec) []string {
	var all []string
	for f := range known {
		all = append(all, string(f))
	}
	slices.Sort(all)
	return all
}
