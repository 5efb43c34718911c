package main

// area is a part of the deep suite.
type area struct {
	// name is also its make target.
	name string
	// needs is what a machine must have beside root, Go and the built programs.
	needs string
	// takes is how long it runs on two cores with nothing else to do.
	takes string
	// packages are directories of tests; one that ends with /... stands for all below it, and
	// deepTests for those that have a deep test.
	packages []string
	// programs are directories of programs that the tests start.
	programs []string
}

// deepTests stands for the packages of the workspace that have a test of the deep suite.
const deepTests = "deep tests"

// plane is what runs where a test has real kubelets. Programs of upstream, which this repository
// builds and does not hold, change with the node bundle's modules.
var plane = []string{"plane/cmd/slipway", "plane/cmd/slipway-sandbox", "cmd/slipway-agent", "cmd/slipway-manager", "cmd/slipway-lifecycle", "nodebundle"}

// areas in the order in which they run.
var areas = []area{
	{"test-alone", "5 GiB of memory, nothing else running", "20 min", []string{"test/e2e"}, plane},
	{"test-e2e", "12 GiB of memory", "31 min", []string{"test/e2e", "test/conformance/clusterctl"}, plane},
	{"test-packages", "6 GiB of memory, Debian's packages", "30 min", []string{deepTests},
		[]string{"cmd/slipway-agent", "cmd/slipway-manager", "cmd/slipway-lifecycle", "cmd/kubectl-slipway"}},
	{"test-modules", "Python, rpm", "9 min", []string{"sdk/...", "release/...", "nodebundle/...", "test/e2e/upstream/..."}, []string{"cmd/slipway-agent"}},
	{"race-concurrent", "a C compiler", "30 min", []string{"sdk/...", "internal/agent/...", "internal/throttle", "internal/controller/host"}, nil},
	{"test-check", "Go and git", "12 min", []string{"internal/testenv"}, nil},
	{"test-mutants", "2 GiB of memory", "28 min", []string{"test/conformance/mutation", "internal/controller/...", "internal/host", "test/chaos/..."}, nil},
	{"test-machine", "qemu-system-x86, mmdebstrap, 4 GiB of memory", "20 min", []string{"test/vm"}, []string{"cmd/slipway-agent", "internal/agent/effects/reset", "release"}},
	{"test-upstream-fastest", "3 GiB of memory", "8 min", []string{"test/e2e/upstream"}, plane},
}
