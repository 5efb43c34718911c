package manager

import (
	"k8s.io/component-base/featuregate"
)

const (
	// HostExtensionConfig has runtime extensions that are registered by
	// HostExtensionConfigs called. Without it none can be registered, and those that are
	// do not count. Beta, and on.
	HostExtensionConfig featuregate.Feature = "HostExtensionConfig"

	// InPlaceUpdates serves the hooks by which Cluster API updates Machines in place. They
	// count where their ExtensionConfig is registered. Alpha, and off.
	InPlaceUpdates featuregate.Feature = "InPlaceUpdates"
)

// NewFeatureGates returns the gates of the provider as they are without a flag.
func NewFeatureGates() featuregate.MutableFeatureGate {
	gates := featuregate.NewFeatureGate()
	if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		HostExtensionConfig: {Default: true, PreRelease: featuregate.Beta},
		InPlaceUpdates:      {Default: false, PreRelease: featuregate.Alpha},
	}); err != nil {
		panic(err) // the gates above contradict each other
	}
	return gates
}
