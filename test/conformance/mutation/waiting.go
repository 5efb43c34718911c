package main

// waitingMutations break how machines wait for hosts, which random faults and clusters over
// several racks have shown to go wrong. Each is noticed by the test that it names.
var waitingMutations = []mutation{
	{
		Rule: "Waiting/anotherNodeIsNamed", Breaks: "a machine that waits is woken by how many Nodes a MachinePool names",
		File: machineController + "/setup.go",
		Old:  "len(nodeNames(before).Difference(nodeNames(after))) > 0", New: "len(nodeNames(before)) != len(nodeNames(after))",
		Package: "internal/manager", Test: "TestMachineIsTriedAgainOnceNoPoolNamesItsHost/another Node is named",
	},
	{
		Rule: "Waiting/poolIsGone", Breaks: "a machine that waits is not woken by the deletion of a MachinePool",
		File: machineController + "/setup.go",
		Old:  "		Watches(&clusterv1.MachinePool{}, handler.EnqueueRequestsFromMapFunc(r.toWaiting), builder.WithPredicates(gone())).\n", New: "",
		Package: "internal/manager", Test: "TestMachineIsTriedAgainOnceNoPoolNamesItsHost/the MachinePool is deleted",
	},
	{
		Rule: "Waiting/anotherRackHelps", Breaks: "a control plane that waits in a full rack is passed over by health checks",
		File: machineController + "/healthcheck.go",
		Old:  "return len(of.snapshot.Rank(of.requirements).Ranked) > 0, nil", New: "return len(of.snapshot.Rank(of.requirements).Ranked) > len(of.snapshot.Hosts), nil",
		Package: machineController, Test: "TestMachineThatAnotherWouldHelpIsNotPassedOver",
	},
	{
		Rule: "Waiting/onlyRacksOfControlPlanes", Breaks: "a rack without hosts for control planes counts as help for one",
		File: machineController + "/healthcheck.go",
		Old:  "		if ptr.Deref(domain.ControlPlane, false) {\n", New: "		if domain.ControlPlane != nil {\n",
		Package: machineController, Test: "TestMachineThatAnotherWouldHelpIsNotPassedOver",
	},
	{
		Rule: "Waiting/workersKeepTheirRack", Breaks: "a worker counts as one whose next machine may be in another rack",
		File: machineController + "/healthcheck.go",
		Old:  "if !s.owner.ControlPlane || len(s.owner.FailureDomains) == 0 {", New: "if len(s.owner.FailureDomains) == 0 {",
		Package: machineController, Test: "TestMachineThatAnotherWouldHelpIsNotPassedOver",
	},
}

const machineController = "internal/controller/hostmachine"
