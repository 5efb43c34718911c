package outside

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

// TestNothingIsReplaced holds what is published to what the go command refuses in a
// module that somebody installs a program of, and ignores in one that is required.
func TestNothingIsReplaced(t *testing.T) {
	for folder, path := range published {
		name := filepath.Join("../..", folder, "go.mod")
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := modfile.Parse(name, data, nil)
		if err != nil {
			t.Fatal(err)
		}
		if parsed.Module.Mod.Path != path {
			t.Errorf("%s is module %s, want %s", name, parsed.Module.Mod.Path, path)
		}
		for _, replaced := range parsed.Replace {
			t.Errorf("%s replaces %s", name, replaced.Old.Path)
		}
		for _, excluded := range parsed.Exclude {
			t.Errorf("%s excludes %s", name, excluded.Mod)
		}
	}
}

// TestInstall installs each program that runs on hosts and in pods by its tag.
func TestInstall(t *testing.T) {
	o := newOutsider(t)
	for _, program := range []string{"slipway-agent", "slipway-manager", "slipway-lifecycle", "slipway-console"} {
		o.run("go", "install", rootModule+"/cmd/"+program+"@"+tag)
		if got := strings.TrimSpace(o.run(o.bin(program), "--version")); got != tag {
			t.Errorf("%s --version prints %q, want %q", program, got, tag)
		}
		if got := o.run(o.bin(program), "--help"); !strings.Contains(got, "--version") {
			t.Errorf("%s --help does not tell how to use it: %q", program, got)
		}
	}
}

// TestInstallPlugin installs the command line by its tag, as somebody without a plane
// does, and calls it as kubectl's own users do.
func TestInstallPlugin(t *testing.T) {
	o := newOutsider(t)
	o.run("go", "install", rootModule+"/cmd/kubectl-slipway@"+tag)
	plugin := o.bin("kubectl-slipway")
	var version struct{ Slipway, Platform string }
	if err := json.Unmarshal([]byte(o.run(plugin, "version", "-o", "json")), &version); err != nil {
		t.Fatal(err)
	}
	if want := runtime.GOOS + "/" + runtime.GOARCH; version.Slipway != tag || version.Platform != want {
		t.Errorf("the version is %+v, want %s on %s", version, tag, want)
	}
	info, err := buildinfo.ReadFile(plugin)
	if err != nil {
		t.Fatal(err)
	}
	for _, dependency := range info.Deps {
		if dependency.Path == "k8s.io/kubernetes" || strings.HasPrefix(dependency.Path, "go.etcd.io/etcd") {
			t.Errorf("it contains %s", dependency.Path)
		}
	}
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		rights.Skip(t, "KUBEBUILDER_ASSETS is not set, so there is no kubectl to call the plugin")
	}
	o.env = append(o.env, "PATH="+filepath.Dir(plugin)+string(os.PathListSeparator)+os.Getenv("PATH"))
	if help := o.run(filepath.Join(assets, "kubectl"), "slipway", "host", "list", "--help"); !strings.Contains(help, "Usage:\n  kubectl slipway host list") {
		t.Errorf("kubectl slipway host list --help prints %s", help)
	}
}

// TestRequireSDK builds the first extension of the SDK's README and its example, each as
// a module of its own, which gets the SDK by its tag and neither client-go nor anything
// else of this repository with it.
func TestRequireSDK(t *testing.T) {
	example, err := os.ReadFile("../../sdk/examples/quota/main.go")
	if err != nil {
		t.Fatal(err)
	}
	o := newOutsider(t)
	for name, source := range map[string][]byte{"example": example, "readme": firstProgram(t, "../../sdk/README.md")} {
		t.Run(name, func(t *testing.T) {
			o := &outsider{t: t, dir: t.TempDir(), env: o.env}
			if err := os.WriteFile(filepath.Join(o.dir, "main.go"), source, 0o600); err != nil {
				t.Fatal(err)
			}
			o.run("go", "mod", "init", "example.com/extension")
			o.run("go", "get", sdkModule+"@"+tag)
			o.run("go", "mod", "tidy")
			o.run("go", "build", "-o", o.bin("extension"), ".")
			for dependency := range strings.FieldsSeq(o.run("go", "list", "-deps", ".")) {
				if strings.HasPrefix(dependency, "k8s.io/client-go/") || strings.HasPrefix(dependency, rootModule+"/") && !strings.HasPrefix(dependency, sdkModule+"/") {
					t.Errorf("an extension depends on %s", dependency)
				}
			}
		})
	}
}

// firstProgram returns the first block of Go in a document that is a whole program.
func firstProgram(t *testing.T, name string) []byte {
	t.Helper()
	document, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(document), "```go\n") {
		if source, _, ok := strings.Cut(block, "\n```"); ok && strings.HasPrefix(source, "package main\n") {
			return []byte(source + "\n")
		}
	}
	t.Fatalf("%s has no program", name)
	return nil
}
