package imports

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const module = "github.com/slipway-dev/slipway/"

// What every package may import.
const (
	answer = "internal/answer"
	text   = "internal/text"
)

// rule says what the packages below a folder may import of this repository.
// A folder always may import itself and what lies below it.
type rule struct {
	folder string
	may    []string // folders of this repository; nil means nothing of it
	never  []string // import path prefixes outside of the repository, transitively
	direct []string // import path prefixes that it does not import itself
}

var rules = []rule{
	{folder: "api"},
	{folder: "config"},
	{folder: "templates"},
	{folder: "internal/version"},
	{folder: answer},
	{folder: text},
	{folder: "internal/startup"},
	{folder: "internal/upgradecheck", may: []string{"internal/startup"}, never: []string{"k8s.io/kubernetes"}},
	{folder: "internal/program", may: []string{"internal/version", "sdk"}},
	{folder: "internal/host", may: []string{"api", "internal/version"}},
	{folder: "internal/pool", may: []string{"api"}, never: []string{"sigs.k8s.io/controller-runtime", "k8s.io/client-go"}, direct: []string{"context"}},
	{folder: "internal/agentrollout", may: []string{"api", "internal/host"}, never: []string{"sigs.k8s.io/controller-runtime"}},
	{folder: "internal/placement", may: []string{"api", "internal/host"}},
	{folder: "internal/durable"},
	{folder: "internal/hostbundle", may: []string{"internal/durable"}, never: []string{"k8s.io/client-go"}},
	{folder: "internal/bundleserver", may: []string{"api", "internal/hostbundle", "sdk/listener"}, never: []string{"k8s.io/kubernetes"}},
	{folder: "internal/throttle"},
	{folder: "internal/tracing", never: []string{"sigs.k8s.io/controller-runtime", "k8s.io/client-go"}},
	{folder: "internal/reconciler"},
	// The packages of the agent, from the inside out; see internal/agent/run/doc.go.
	{folder: "internal/agent/core", may: []string{"api", "internal/durable"}, never: []string{"k8s.io/client-go"}},
	{folder: "internal/agent/hostos", may: []string{"api", "internal/durable"}},
	{folder: "internal/agent/link", may: []string{"api", "internal/host", "internal/durable", "internal/agent/core", "internal/agent/hostos/inventory", "internal/agent/run/config"}},
	{folder: "internal/agent/vip", may: []string{"internal/agent/hostos", "internal/agent/link/backoff", "internal/agent/link/kube"}},
	{folder: "internal/agent/effects", may: []string{"api", "internal/host", "internal/durable", "internal/startup", "internal/agent/core/journal", "internal/agent/core/operation",
		"internal/agent/hostos", "internal/agent/vip", "internal/agent/link/backoff"}},
	{folder: "internal/agent/preflight", may: []string{"internal/agent/hostos", "internal/agent/run/config"}},
	{folder: "internal/agent/software", may: []string{"internal/agent/core/journal", "internal/agent/core/operation", "internal/agent/hostos", "internal/agent/run/config", "internal/durable", "internal/hostbundle"}, never: []string{"k8s.io/client-go"}},
	{folder: "internal/agent/selfupdate", may: []string{"api", "internal/agent/hostos", "internal/agent/software", "internal/hostbundle", "internal/durable", "internal/version", "internal/agent/run/config"}, never: []string{"k8s.io/client-go"}},
	{folder: "internal/agent/uninstall", may: []string{"api", "internal/agent/core/journal", "internal/agent/hostos", "internal/agent/run/config", "internal/agent/software",
		"internal/durable"}, never: []string{"k8s.io/client-go"}},
	{folder: "internal/agent/hostlog", may: []string{"api", "internal/redact", "internal/agent/hostos/command", "internal/agent/link/backoff", "internal/agent/link/kube"}},
	{folder: "internal/agent/run/config", may: []string{"api"}},
	{folder: "internal/agent/run", may: []string{"api", "internal/durable", "internal/version", "internal/agent/core", "internal/agent/hostos", "internal/agent/link", "internal/agent/vip",
		"internal/agent/effects", "internal/agent/hostlog", "internal/agent/software", "internal/agent/selfupdate", "internal/hostbundle", "sdk/listener"}},
	{folder: "internal/agent", may: []string{"api", "internal/host", "internal/hostbundle", "internal/durable", "internal/startup", "internal/redact", "internal/version", "sdk/listener"},
		never: []string{"sigs.k8s.io/controller-runtime", "k8s.io/kubernetes"}},
	{folder: "internal/inplace", may: []string{"api", "internal/host", "internal/placement", "sdk"}, never: []string{"k8s.io/kubernetes"}},
	{folder: "internal/hosthooks", may: []string{"api", "sdk"}},
	{folder: "internal/controller", may: []string{"api", "internal/agentrollout", "internal/host", "internal/hosthooks", "internal/placement", "internal/reconciler", "internal/pool", "internal/throttle", "internal/tracing", "sdk"},
		never: []string{"k8s.io/kubernetes"}},
	{folder: "internal/webhook", may: []string{"api", "internal/host", "internal/placement", "sdk"}},
	{folder: "internal/manager", may: []string{"api", "internal/bundleserver", "internal/controller", "internal/doctor", "internal/snapshot", "internal/status", "internal/hosthooks", "internal/inplace", "internal/webhook", "internal/version", "internal/throttle", "internal/program", "internal/tracing", "sdk"}},
	{folder: "internal/lifecycle/step", may: []string{"api", "internal/lifecycle/expression", "internal/lifecycle/rights", "internal/lifecycle/workload", "sdk"}},
	{folder: "internal/lifecycle/expression", may: []string{"api"}, never: []string{"sigs.k8s.io/controller-runtime"}},
	// Pure: facts come in as values.
	{folder: "internal/lifecycle/plan", may: []string{"api", "internal/lifecycle/step"}, direct: []string{"context", "sigs.k8s.io/controller-runtime", "k8s.io/client-go"}},
	{folder: "internal/lifecycle/run", may: []string{"api", "internal/lifecycle/expression", "internal/lifecycle/plan", "internal/lifecycle/rights", "internal/lifecycle/step", "internal/reconciler", "internal/tracing"}},
	{folder: "internal/lifecycle/rights", may: []string{"api"}},
	{folder: "internal/lifecycle/policy", may: []string{"api", "internal/lifecycle/expression", "internal/lifecycle/rights", "internal/lifecycle/run", "internal/lifecycle/plan", "internal/lifecycle/step", "internal/reconciler"}},
	{folder: "internal/lifecycle", may: []string{"api", "sdk", "internal/version", "internal/program", "internal/reconciler", "internal/tracing"}, never: []string{"k8s.io/kubernetes"}},
	// What commands show and do; the plane uses it, too.
	{folder: "internal/clusters", may: []string{"internal/host", "templates"}, never: []string{"k8s.io/kubernetes"}},
	{folder: "internal/enroll", may: []string{"api"}},
	{folder: "internal/extensionproject", may: []string{"sdk"}, never: []string{"k8s.io/client-go"}},
	{folder: "internal/hookdocs", may: []string{"internal/version", "sdk"}},
	{folder: "internal/providercheck", may: []string{"internal/version"}},
	{folder: "internal/runs", may: []string{"api", "internal/lifecycle"}, never: []string{"k8s.io/kubernetes"}},
	{folder: "internal/change", may: []string{"api", "internal/clusters", "internal/host", "templates"}, never: []string{"k8s.io/kubernetes"}},
	{folder: "internal/snapshot", may: []string{"api"}, never: []string{"k8s.io/kubernetes"}},
	{folder: "internal/display"},
	{folder: "internal/doctor", may: []string{"api", "internal/display", "internal/host", "internal/lifecycle/plan", "internal/runs", "internal/snapshot"}, never: []string{"k8s.io/kubernetes"}},
	{folder: "internal/status", may: []string{"api", "internal/display", "internal/doctor", "internal/host", "internal/lifecycle/plan", "internal/placement", "internal/snapshot"}, never: []string{"k8s.io/kubernetes"}},
	{folder: "internal/management", may: []string{"api", "internal/agent/link/enroll", "internal/durable", "internal/lifecycle/workload", "internal/snapshot", "internal/status"},
		never: []string{"k8s.io/kubernetes"}},
	{folder: "internal/redact"},
	{folder: "internal/support", may: []string{"api", "internal/display", "internal/doctor", "internal/management", "internal/redact"}, never: []string{"k8s.io/kubernetes"}},
	{folder: "internal/provision/remote", may: []string{"internal/provision"}, never: []string{"github.com/vishvananda"}},
	{folder: "internal/provision", may: []string{"api", "internal/agent/join", "internal/agent/run/config", "internal/enroll", "internal/host", "internal/hostbundle"},
		never: []string{"k8s.io/kubernetes", "github.com/vishvananda"}},
	// The console, from the inside out; see its doc.go.
	{folder: "internal/console/watch"},
	{folder: "internal/console/view", may: []string{"api", "internal/change", "internal/doctor", "internal/host", "internal/lifecycle/step", "internal/runs", "internal/snapshot", "internal/status"}},
	{folder: "internal/console", may: []string{"api", "internal/display", "internal/change", "internal/clusters", "templates", "internal/doctor", "internal/host", "internal/lifecycle/step", "internal/runs", "internal/snapshot", "internal/status", "internal/version", "sdk/listener"}, never: []string{"k8s.io/kubernetes"}},
	{folder: "test/clitest"},
	// What runs wherever kubectl does.
	{folder: "internal/cli", may: []string{"api", "internal/display", "config", "sdk", "internal/agent/join", "internal/change", "internal/durable", "internal/clusters", "internal/console", "internal/controller/extensionconfig", "internal/doctor", "internal/enroll", "internal/extensionproject", "internal/hookdocs",
		"internal/host", "internal/hostbundle", "internal/lifecycle/plan", "internal/management", "internal/provision", "internal/providercheck", "internal/redact", "internal/runs", "internal/snapshot", "internal/status", "internal/support", "internal/upgradecheck", "internal/version"},
		never: []string{"k8s.io/kubernetes", "go.etcd.io/etcd", "github.com/vishvananda"}},
	{folder: "cmd", may: []string{"api", "internal"}},
}

func TestImportRules(t *testing.T) {
	packages := list(t, "{{.ImportPath}} {{join .Imports \" \"}}")
	deps := list(t, "{{.ImportPath}} {{join .Deps \" \"}}")
	for _, r := range rules {
		t.Run(r.folder, func(t *testing.T) {
			for pkg, imports := range packages {
				if !below(pkg, module+r.folder) {
					continue
				}
				for _, imported := range imports {
					if strings.HasPrefix(imported, module) && !r.allows(imported) {
						t.Errorf("%s imports %s, which the rules of %s do not allow", pkg, imported, r.folder)
					}
					for _, never := range r.direct {
						if below(imported, never) {
							t.Errorf("%s imports %s; %s must not", pkg, imported, r.folder)
						}
					}
				}
				for _, dep := range deps[pkg] {
					for _, never := range r.never {
						if below(dep, never) {
							t.Errorf("%s depends on %s; %s must never depend on %s", pkg, dep, r.folder, never)
						}
					}
				}
			}
		})
	}
}

// TestNobodyImportsPlane holds that plane is a leaf: no package of this module
// depends on it.
func TestNobodyImportsPlane(t *testing.T) {
	for pkg, deps := range list(t, "{{.ImportPath}} {{join .Deps \" \"}}") {
		for _, dep := range deps {
			if below(dep, module+"plane") {
				t.Errorf("%s depends on %s", pkg, dep)
			}
		}
	}
}

// TestCommandsRunNoPlane holds that commands know a plane by its state directory: of the
// packages behind them only serve has what runs in one.
func TestCommandsRunNoPlane(t *testing.T) {
	const commands = module + "plane/internal/"
	// -e: manifests that are not rendered yet are no concern of this test
	for pkg, deps := range listIn(t, "go.work", "-e", "-f", "{{.ImportPath}} {{join .Deps \" \"}}", commands+"planeclient", commands+"up") {
		if len(deps) < 100 {
			t.Errorf("%s depends on %d packages only", pkg, len(deps))
		}
		for _, dep := range deps {
			if below(dep, "k8s.io/kubernetes") || below(dep, commands+"serve") || below(dep, commands+"capi") {
				t.Errorf("%s depends on %s", pkg, dep)
			}
		}
	}
}

// TestPlacementNeverWrites holds that placement has no client that could.
func TestPlacementNeverWrites(t *testing.T) {
	files, err := filepath.Glob("../../internal/placement/*.go")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if writer := regexp.MustCompile(`\bclient\.(Client|WithWatch|Writer|StatusClient|SubResource\w*)\b`).Find(source); writer != nil && !strings.HasSuffix(file, "_test.go") {
			t.Errorf("%s has a %s: placement takes a client.Reader", file, writer)
		}
	}
}

// TestSiblingsDoNotImportEachOther keeps reconcilers apart, which agree through
// objects and internal/host.
func TestSiblingsDoNotImportEachOther(t *testing.T) {
	packages := list(t, "{{.ImportPath}} {{join .Imports \" \"}}")
	const root = module + "internal/controller/"
	for pkg, imports := range packages {
		if !strings.HasPrefix(pkg, root) {
			continue
		}
		own, _, _ := strings.Cut(strings.TrimPrefix(pkg, root), "/")
		for _, imported := range imports {
			if strings.HasPrefix(imported, root) && !below(imported, root+own) {
				t.Errorf("%s imports %s", pkg, imported)
			}
		}
	}
}

func (r rule) allows(imported string) bool {
	for _, folder := range append([]string{r.folder, answer, text}, r.may...) {
		if below(imported, module+folder) {
			return true
		}
	}
	return false
}

func below(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// list asks the go command about every package of this module.
func list(t *testing.T, format string) map[string][]string {
	t.Helper()
	return listIn(t, "hack/root.work", "-f", format, module+"...")
}

// listIn asks it for lines of fields, of which the first is a package, in a workspace.
func listIn(t *testing.T, workspace string, args ...string) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = "../.."
	workspace, err := filepath.Abs(filepath.Join(cmd.Dir, workspace))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Environ(), "GOWORK="+workspace)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := map[string][]string{}
	for line := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
		fields := strings.Fields(line)
		packages[fields[0]] = fields[1:]
	}
	if len(packages) < 2 {
		t.Fatalf("go list found only %d packages", len(packages))
	}
	return packages
}
