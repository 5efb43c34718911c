package imports

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// clocked are the calls with which a test fails, or passes without reason, when the machine is
// slower than its author thought, and pauses.
var clocked = regexp.MustCompile(`^(time\.(Sleep|After|AfterFunc|NewTimer|NewTicker|Tick|Since)|context\.With(Timeout|Deadline)(Cause)?|wait\.Poll.*|Now\(\)\.(After|Before|Sub))$`)

// timed are the files of tests that read the clock nevertheless: how often, and why. Those that
// measure live in test/bench, test/chaos and test/vm.
var timed = map[string]struct {
	calls int
	why   string
}{
	"internal/agent/core/software_test.go":                        {1, "a desired state that comes meanwhile must not be missed"},
	"internal/agent/effects/holders_test.go":                      {2, "in a bubble of its callers; the lifetime of an address, played"},
	"internal/agent/hostos/command/command_test.go":               {1, "the end of a context is the subject"},
	"internal/agent/hostlog/hostlog_test.go":                      {10, "in bubbles"},
	"internal/agent/link/enroll/enroll_test.go":                   {1, "a start that nobody decides is ended; how far it came is counted"},
	"internal/agent/link/handover/keeper_test.go":                 {1, "as above"},
	"internal/agent/link/watch_test.go":                           {1, "in a bubble of its callers"},
	"internal/agent/run/agent_test.go":                            {1, "the pause of a played manager"},
	"internal/agent/run/ontrial_test.go":                          {1, "a lock is let go in the middle of the wait for it"},
	"internal/agent/selfupdate/trial_test.go":                     {1, "a stop before and after the trial has reported"},
	"internal/agent/vip/kernel_test.go":                           {5, "the kernel's clock is the subject"},
	"internal/bundleserver/process_test.go":                       {3, "a benchmark, and kills all over the time that a write takes"},
	"internal/console/watch/reader_test.go":                       {1, "the end of a context is the subject"},
	"internal/controller/agentrelease/manager_test.go":            {1, "nothing is written at rest; deep"},
	"internal/controller/hostmachine/race_test.go":                {1, "answers that arrive late"},
	"internal/controller/hostmachinepool/bootstrapconfig_test.go": {2, "the API server tells times in whole seconds"},
	"internal/hostbundle/registry/drip_test.go":                   {2, "in a bubble of its callers"},
	"internal/lifecycle/hooks/latency_test.go":                    {2, "measures, in the deep suite"},
	"internal/lifecycle/engine/queue_test.go":                     {2, "a fault of upstream's, provoked; too late is no failure"},
	"internal/lifecycle/step/export_test.go":                      {1, "others come meanwhile"},
	"internal/manager/flow_test.go":                               {1, "the pause of played agents"},
	"internal/manager/scale_test.go":                              {1, "nothing is written at rest; deep"},
	"internal/manager/wake_test.go":                               {1, "no earlier event may wake what is to be woken; too short is no failure"},
	"plane/internal/component/group_test.go":                      {1, "in a bubble of its callers"},
	"plane/internal/instance/instance_test.go":                    {1, "a lock is let go in the middle of the wait for it"},
	"plane/internal/localhost/crash_test.go":                      {2, "kills all over the time that a boot takes"},
	"plane/internal/localhost/manager_test.go":                    {1, "the end of a context is the subject"},
	"plane/internal/sandbox/cgroup/group_test.go":                 {1, "as above"},
	"plane/internal/up/phase_plane_test.go":                       {1, "as above"},
	"plane/internal/up/process_test.go":                           {1, "as above"},
	"sdk/client/blame_test.go":                                    {1, "as above"},
	"sdk/client/peer_test.go":                                     {6, "peers that send, or end, a while later"},
	"sdk/conformance/conformance_test.go":                         {3, "an extension that is slow is the subject"},
	"test/areas/run.go":                                           {1, "reports"},
	"test/conformance/clusterctl/move_test.go":                    {1, "a move is held up for as long as that"},
	"test/conformance/mutation/generate.go":                       {2, "reports, and ends a mutant that hangs"},
	"test/conformance/mutation/main.go":                           {1, "reports"},
	"test/conformance/provider/health.go":                         {1, "upstream's least time of a start is 30 s; deep"},
	"test/conformance/trust/assignment_test.go":                   {1, "an agent that comes nevertheless takes two seconds; deep"},
	"test/e2e/command_test.go":                                    {1, "an interrupt in the middle"},
	"test/e2e/controlplane_test.go":                               {2, "a promise to users; nothing else runs then"},
	"test/e2e/controlplaneupgrade_test.go":                        {2, "measures a gap, and reads a journal often"},
	"test/e2e/follow_test.go":                                     {1, "the pause of a poll without a test"},
	"test/e2e/slipway_test.go":                                    {1, "objects change that no status shows"},
	"test/e2e/starts_test.go":                                     {1, "reports"},
	"test/e2e/waystobreak_table_test.go":                          {1, "beats the heart of a host"},
	"test/e2e/waystobreak_test.go":                                {3, "reports"},
	"internal/cli/cluster_reboot_test.go":                         {3, "plays hosts in a bubble"},
	"test/e2e/upgrade_test.go":                                    {1, "reads a journal often"},
	"test/live/turn.go":                                           {1, "the pause of a poll for a place"},
	"test/live/turn_test.go":                                      {2, "a place is held for a while; a process that is killed"},
	"test/live/probe.go":                                          {2, "the pause between two attempts, and the gap that is measured"},
	"test/simagent/executor.go":                                   {1, "how long a played operation takes"},
}

// TestWaitsEndWithTheRun holds that no test is bounded by the wall clock: what it waits for comes
// by internal/testenv/poll (in the SDK, sdk/internal/poll), whose waits end with the run; what
// takes time has a clock that the test sets, or runs in a bubble of testing/synctest.
func TestWaitsEndWithTheRun(t *testing.T) {
	found := map[string]int{}
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, "../../"))
		switch {
		case e.IsDir() && (e.Name() == "testdata" || e.Name() == "bin" || e.Name() == ".git" || slices.Contains(measuring, name)):
			return fs.SkipDir
		case e.IsDir(), !strings.HasSuffix(name, ".go"):
			return nil
		case !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "test/") && !strings.HasPrefix(name, "internal/testenv/"):
			return nil
		}
		calls, err := clockedCalls(path)
		if err != nil {
			return err
		}
		found[name] = len(calls)
		if len(calls) > timed[name].calls {
			t.Errorf("%s reads the clock, see TestWaitsEndWithTheRun: %s", name, strings.Join(calls, ", "))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(timed)) {
		if found[name] < timed[name].calls {
			t.Errorf("%s reads the clock %d times, not %d: say so in the list", name, found[name], timed[name].calls)
		}
	}
}

// measuring are the folders whose tests measure time, and those of the waits themselves.
var measuring = []string{"test/bench", "test/chaos", "test/vm", "internal/testenv/poll", "sdk/internal/poll"}

// clockedCalls returns the calls of a file that are not in a bubble of testing/synctest.
func clockedCalls(path string) ([]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var calls []string
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of := "value"
		switch x := selector.X.(type) {
		case *ast.Ident:
			of = x.Name
		case *ast.CallExpr:
			if now, ok := x.Fun.(*ast.SelectorExpr); ok && now.Sel.Name == "Now" {
				of = "Now()"
			}
		}
		name := of + "." + selector.Sel.Name
		if name == "synctest.Test" || selector.Sel.Name == "Logf" {
			return false
		}
		if clocked.MatchString(name) {
			calls = append(calls, fmt.Sprintf("line %d: %s", files.Position(call.Pos()).Line, name))
		}
		return true
	})
	return calls, nil
}
