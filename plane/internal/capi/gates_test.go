package capi

import (
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/cluster-api/feature"
)

func TestCheckFeatureGates(t *testing.T) {
	for gates, want := range map[string]string{
		"":                              "",
		"MachineTaintPropagation=false": "",
		" PriorityQueue=true, InPlaceUpdates=false ": "", //nolint:gocritic // spaces are what it tries,
		"AllAlpha=true":           "",
		"MachineTaints=true":      `no feature gate "MachineTaints"; it has AllAlpha`,
		"PriorityQueue":           "want PriorityQueue=true or PriorityQueue=false",
		"PriorityQueue=on":        "PriorityQueue",
		"ClusterTopology=false":   "ClusterTopology cannot be off",
		"AllBeta=x":               "AllBeta",
		"=true":                   "unrecognized feature gate",
		"MachinePool=false":       "machine pools",
		"RuntimeSDK=false":        "lifecycle policies",
		"PriorityQueue=true=true": "PriorityQueue",
	} {
		err := CheckFeatureGates(gates)
		var refused *FeatureGateError
		if want == "" && err != nil || want != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", gates, err, want)
		}
	}
	if feature.Gates.Enabled(feature.MachineTaintPropagation) {
		t.Error("the check has set the gates of the process")
	}
}

func TestGatesAreSet(t *testing.T) {
	gates := feature.MutableGates.DeepCopy()
	if err := setGates(gates, "InPlaceUpdates=false"); err != nil {
		t.Fatal(err)
	}
	if !gates.Enabled(feature.MachineTaintPropagation) || !gates.Enabled(feature.RuntimeSDK) || gates.Enabled(feature.InPlaceUpdates) {
		t.Errorf("gates: %v", gates)
	}
}
