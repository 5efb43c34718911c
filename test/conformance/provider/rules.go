package provider

import (
	"slices"
	"testing"
)

// Rule is one rule of a contract.
type Rule struct {
	// Name of the subtest.
	Name string
	// Mandatory is false for what the contract leaves to the provider.
	Mandatory bool
	// Judge fails the test when the rule is broken.
	Judge func(*testing.T, *Suite)
}

// Rules are all rules of the contracts, by contract, in the order of their text, what
// MachineHealthChecks rely on, and the hazards.
func Rules() map[string][]Rule {
	return map[string][]Rule{"InfraMachine": machineRules, "InfraMachinePool": poolRules, "InfraCluster": clusterRules, "MachineHealthCheck": healthRules, "Hazards": hazardRules}
}

// gateRules are judged in the gate: what only upstream's controllers can show. Tests of the
// reconcilers prove the others there; the deep suite judges all of them.
var gateRules = map[string][]string{
	"InfraMachinePool":   {"machines", "machinesDrain", "providerIDList", "initialization", "conditions", "ssaDryRun"},
	"InfraCluster":       {"controlPlaneEndpoint", "ready", "failureDomains", "deletedWithOwner"},
	"MachineHealthCheck": {"poolMachine"},
	"Hazards":            {"rotatedSecret"},
}

// InGate reports whether the gate judges a rule. The deep suite judges every one.
func InGate(contract, rule string) bool { return slices.Contains(gateRules[contract], rule) }

// poolRules follow "Contract rules for InfraMachinePool", contract version v1beta2.
var poolRules = []Rule{
	{"scope", true, namespaced},
	{"typeMeta", true, metaOfResources},
	{"group", true, coreHasRights},
	{"version", true, contractLabels},
	{"resources", true, poolResources},
	{"instances", false, instances},
	{"machines", false, poolMachines},
	{"machinesDrain", false, drainOnScaleDown},
	{"providerID", false, providerID},
	{"providerIDList", true, providerIDList},
	{"initialization", true, initialization},
	{"pausing", false, poolPausing},
	{"conditions", false, poolConditions},
	{"replicas", true, replicas},
	{"replicasManagedBy", false, replicasManagedBy},
	{"terminalFailures", false, poolTerminalFailures},
	{"template", false, poolTemplate},
	{"ssaDryRun", false, ssaDryRun},
	{"multiTenancy", false, multiTenancy},
}

// clusterRules follow the "Cluster Infrastructure Provider Specification".
var clusterRules = []Rule{
	{"group", true, clusterGroup},
	{"crdName", true, crdNames},
	{"scope", true, namespaced},
	{"typeMeta", true, metaOfResources},
	{"controlPlaneEndpoint", true, controlPlaneEndpoint},
	{"ready", true, clusterReady},
	{"failures", false, clusterFailures},
	{"failureDomains", false, failureDomains},
	{"template", false, clusterTemplate},
	{"lists", true, lists},
	{"externallyManaged", true, externallyManaged},
	{"noOwner", true, noOwner},
	{"finalizer", true, clusterFinalizer},
	{"endpointRecorded", true, endpointRecorded},
	{"errorsStop", true, errorsStop},
	{"persisted", true, clusterPersisted},
	{"pausing", false, clusterPausing},
	{"conditions", false, clusterConditions},
	{"deletedWithOwner", true, deletedWithOwner},
	{"deletedWithoutOwner", true, deletedWithoutOwner},
	{"providerRights", true, providerRights},
	{"coreRights", true, coreHasRights},
}
