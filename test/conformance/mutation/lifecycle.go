package main

// Packages of the lifecycle engine whose tests judge it.
const (
	engine    = "internal/lifecycle/"
	hooks     = engine + "hooks"
	plans     = engine + "plan"
	decisions = engine + "admission"
)

// lifecycleMutations break the lifecycle engine (seeds runtime-sdk-proposal and
// lifecycle-hooks-guide). Each is noticed by the test that it names.
var lifecycleMutations = []mutation{
	{
		Rule: "Lifecycle/shortestWishCounts", Breaks: "of several policies that hold back the longest is waited for",
		File: hooks + "/handler.go", Old: "min(v.after, other.after)", New: "max(v.after, other.after)",
		Package: hooks, Test: "TestShortestWishCounts",
	},
	{
		Rule: "Lifecycle/auditHoldsNothingBack", Breaks: "a policy that only looks, and cannot, holds back",
		File: hooks + "/handler.go",
		Old:  "		if err != nil && policy.Spec.Mode == lifecyclev1.ModeAudit {\n", New: "		if err != nil && policy.Spec.Mode == \"\" {\n",
		Package: hooks, Test: "TestAuditHoldsNothingBackThatItCannotRecord",
	},
	{
		Rule: "Lifecycle/stalePolicies", Breaks: "a policy that the cache does not have lets pass",
		File: hooks + "/handler.go", Old: "return h.ask(ctx, h.APIReader, e)", New: "return h.ask(ctx, h.Client, e)",
		Package: hooks, Test: "TestStalePolicyCacheLetsNothingPass",
	},
	{
		Rule: "Lifecycle/staleRuns", Breaks: "what the cache says of a run lets pass",
		File: hooks + "/handler.go",
		Old:  "		err := h.APIReader.Get(ctx, client.ObjectKeyFromObject(run), live)\n", New: "		err := h.Client.Get(ctx, client.ObjectKeyFromObject(run), live)\n",
		Package: hooks, Test: "TestStaleCacheLetsNothingPass",
	},
	{
		Rule: "Lifecycle/unknownHoldsBack", Breaks: "a policy of which it cannot be known whether it is about the Cluster lets pass",
		File: hooks + "/handler.go", Old: "			errs = append(errs, err)\n		case mismatch", New: "			continue\n		case mismatch",
		Package: hooks, Test: "TestWhatCannotBeKnownIsAnError",
	},
	{
		Rule: "Lifecycle/onlyWhatIsDue", Breaks: "whoever reaches the port starts what belongs to a hook",
		File: hooks + "/handler.go", Old: "	case reason != \"\":", New: "	case reason == \"never\":",
		Package: hooks, Test: "TestWhatIsNotDueBeginsNothing",
	},
	{
		Rule: "Lifecycle/upgradePlan", Breaks: "the versions that the workers have yet to get are not told",
		File: hooks + "/register.go", Old: "ControlPlaneUpgrades: steps(controlPlane), WorkersUpgrades: steps(workers),\n	}", New: "ControlPlaneUpgrades: steps(controlPlane), WorkersUpgrades: steps(nil),\n	}",
		Package: hooks, Test: "TestEachHookWaitsForItsRun",
	},
	{
		Rule: "Lifecycle/calledOff", Breaks: "an approval is carried to the next upgrade",
		File: plans + "/cancel.go", Old: "		return cmp.Or(calledOff(run, cluster), withdrawn(run, cluster))\n", New: "		return withdrawn(run, cluster)\n",
		Package: plans, Test: "TestCancelReason",
	},
	{
		Rule: "Lifecycle/closedWindow", Breaks: "a window that has closed lets pass",
		File: plans + "/blocks.go", Old: "	return lapsed(run, now)\n", New: "	return false, \"\"\n",
		Package: plans, Test: "TestHoldsUntilTheHookHasPassed",
	},
	{
		Rule: "Lifecycle/timeout", Breaks: "timeoutSeconds does not count",
		File: engine + "step/kinds.go", Old: "	if s.TimeoutSeconds != nil {\n", New: "	if s.TimeoutSeconds != nil && s.Name == \"\" {\n",
		Package: engine + "run", Test: "TestTimeouts",
	},
	{
		Rule: "Lifecycle/delaysAreTold", Breaks: "explain does not tell that BeforeWorkersUpgrade delays scaling",
		File: "api/lifecycle/v1alpha1/hooks.go", Old: "AfterControlPlaneUpgrade, BeforeWorkersUpgrade}, h)", New: "AfterControlPlaneUpgrade}, h)",
		Package: "internal/runs", Test: "TestExplainTellsWhatIsDelayed",
	},
	{
		Rule: "Lifecycle/runsAreTheEngines", Breaks: "anybody changes what a run records",
		File: decisions + "/run.go", Old: "	if err != nil || engine {\n		return err\n	}\n	if !sameSpec {", New: "	if err != nil || !engine {\n		return err\n	}\n	if !sameSpec {",
		Package: decisions, Test: "TestNobodyElseChangesARun",
	},
	{
		Rule: "Lifecycle/gateOutlivesItsNamespace", Breaks: "a policy that a deletion waits for is deleted first",
		File: decisions + "/deletion.go", Old: "	if len(held) == 0 {\n		return nil\n	}\n", New: "	if len(held) != -1 {\n		return nil\n	}\n",
		Package: decisions, Test: "TestGateOutlivesTheDeletionOfAll",
	},
	{
		Rule: "Lifecycle/guardBeforePolicy", Breaks: "a policy is stored before the deletion of its namespace is guarded",
		File: decisions + "/policy.go", Old: "	return v.guard.Set(ctx, p.Namespace)\n", New: "	return nil\n",
		Package: decisions, Test: "TestNoPolicyWithoutItsGuard",
	},
	{
		Rule: "Lifecycle/guardOutlivesItsRelease", Breaks: "a policy that is admitted while the guard is removed loses it",
		File: engine + "policy/guard.go", Old: "client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})", New: "client.MergeFrom(before)",
		Package: engine + "policy", Test: "TestNoPolicyLosesItsGuard",
	},
	{
		Rule: "Lifecycle/withoutTopology", Breaks: "a Cluster without a topology is unpaused before its steps are done",
		File: decisions + "/cluster.go", Old: "	if !made || plan.Provisioned(before) {", New: "	if made || plan.Provisioned(before) {",
		Package: engine + "engine", Test: "TestAClusterWithoutATopologyIsHeldBack",
	},
	{
		Rule: "Lifecycle/withdrawn", Breaks: "an approval is carried to the next request for a deletion",
		File: plans + "/cancel.go", Old: "		return cmp.Or(calledOff(run, cluster), withdrawn(run, cluster))\n", New: "		return calledOff(run, cluster)\n",
		Package: plans, Test: "TestWhatIsNotAskedForAnyMoreIsGivenUp",
	},
	{
		Rule: "Lifecycle/moved", Breaks: "what comes before creation is done again where a Cluster has moved to",
		File: plans + "/cancel.go", Old: "!Provisioned(cluster) && cluster.Spec.ControlPlaneEndpoint.IsZero()", New: "!Provisioned(cluster)",
		Package: plans, Test: "TestClustersWithoutATopologyAsk",
	},
}
