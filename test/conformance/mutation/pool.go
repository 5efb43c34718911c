package main

// poolMutations break pools in ways that tests of a lower level than the conformance suite notice.
var poolMutations = []mutation{
	{
		Rule: "Pools/instancesAreCapped", Breaks: "every machine of a pool is an instance in its status",
		Package: "internal/controller/hostmachinepool", Test: "TestLargePoolFitsIntoEtcd",
		File: poolController + "publish.go", Old: "min(len(s.hostMachines), infrav1.MaxInstances)", New: "len(s.hostMachines)",
	},
	{
		Rule: "Pools/markedMachineFirst", Breaks: "the mark on a Machine counts for nothing",
		Package: "internal/pool", Test: "TestSize",
		File: "internal/pool/order.go", Old: "		falseFirst(!x.Marked, !y.Marked),\n", New: "",
	},
}
