package extensionproject

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"k8s.io/apimachinery/pkg/util/yaml"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	syaml "sigs.k8s.io/yaml"
)

const aRelease = "v1.2.3"

func render(t *testing.T, o Options) map[string]string {
	t.Helper()
	project, err := Render(o)
	if err != nil {
		t.Fatal(err)
	}
	byPath := map[string]string{}
	for _, f := range project {
		byPath[f.Path] = string(f.Content)
	}
	return byPath
}

// Every hook has a function, a handler and a test; test/outside compiles and runs them.
func TestEveryHook(t *testing.T) {
	for _, name := range Hooks() {
		project := render(t, Options{Name: "quota", Hooks: []string{name}, SDKVersion: aRelease})
		for path, want := range map[string]string{
			"hooks.go": "." + name + ", \"" + kebab(name) + "\", ", "main_test.go": "func Test" + name + "(", "README.md": "| " + name + " | `" + kebab(name) + "` | ",
		} {
			if !strings.Contains(project[path], want) {
				t.Errorf("%s: %s has no %q:\n%s", name, path, want, project[path])
			}
		}
		if strings.Contains(project["README.md"], "| handles ") {
			t.Errorf("%s: nothing says when it is called", name)
		}
	}
	if got := len(Hooks()); got < 18 || slices.Contains(Hooks(), "Discovery") {
		t.Errorf("%d hooks: %v", got, Hooks())
	}
}

func TestNothingIsLeftOfTemplates(t *testing.T) {
	for _, hook := range []string{"BeforeClusterCreate", "BeforeHostClaim"} {
		for path, content := range render(t, Options{Name: "quota", Hooks: []string{hook}}) {
			if strings.Contains(content, "<<") || strings.Contains(content, ">>") || !strings.HasSuffix(content, "\n") || strings.HasSuffix(content, "\n\n") {
				t.Errorf("%s is not what was meant:\n%s", path, content)
			}
		}
	}
}

// A truth value or nothing in the place of a name is refused by the API server: whatever the name, the manifests
// differ by it alone.
func TestNamesStayStrings(t *testing.T) {
	manifests := func(name string) string {
		var all []string
		for document := range strings.SplitSeq(render(t, Options{Name: name, Hooks: []string{"BeforeClusterCreate"}})["deploy.yaml"], "\n---\n") {
			data, err := syaml.YAMLToJSON([]byte(document))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(data))
		}
		return strings.Join(all, "\n")
	}
	usual := manifests("quota")
	for _, name := range []string{"true", "no", "null", "y", "on", "off", strings.Repeat("a", 63)} {
		if got, want := manifests(name), strings.ReplaceAll(usual, "quota", name); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestManifests(t *testing.T) {
	for hook, kind := range map[string]string{"BeforeClusterCreate": "ExtensionConfig", "BeforeHostClaim": "HostExtensionConfig"} {
		project := render(t, Options{Name: "quota", Hooks: []string{hook}})
		reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(project["deploy.yaml"])))
		var kinds []string
		var registration runtimev1.ExtensionConfig
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			var object struct {
				Kind     string `json:"kind"`
				Metadata struct {
					Name, Namespace string
				} `json:"metadata"`
			}
			if err := syaml.Unmarshal(document, &object); err != nil {
				t.Fatalf("%v\n%s", err, document)
			}
			kinds = append(kinds, object.Kind)
			if object.Kind == kind {
				// Both kinds have these fields.
				if err := syaml.UnmarshalStrict(document, &registration); err != nil {
					t.Errorf("%s: %v", kind, err)
				}
			}
		}
		want := []string{"Namespace", "Issuer", "Certificate", "ServiceAccount", "Deployment", "PodDisruptionBudget", "NetworkPolicy", "Service", kind}
		if !slices.Equal(kinds, want) {
			t.Errorf("got %v, want %v", kinds, want)
		}
		service := registration.Spec.ClientConfig.Service
		if service.Name != "quota" || service.Namespace != "quota" || registration.Annotations[runtimev1.InjectCAFromSecretAnnotation] != "quota/quota-tls" {
			t.Errorf("registered as %+v", registration)
		}
		var workflow map[string]any
		if err := syaml.UnmarshalStrict([]byte(project[".github/workflows/ci.yaml"]), &workflow); err != nil || workflow["jobs"] == nil {
			t.Errorf("workflow %v: %v", workflow, err)
		}
	}
}

// What the repository itself builds with is what projects build with.
func TestVersions(t *testing.T) {
	project := render(t, Options{Name: "quota", Hooks: []string{"BeforeClusterCreate"}, SDKVersion: aRelease})
	sdk, release := parsed(t, "../../sdk/go.mod", ""), parsed(t, "../../release/go.mod", "")
	main, image := parsed(t, "go.mod", project["go.mod"]), parsed(t, "image/go.mod", project["image/go.mod"])
	if main.Go.Version != sdk.Go.Version || image.Go.Version != sdk.Go.Version {
		t.Errorf("Go %s and %s, the SDK has %s", main.Go.Version, image.Go.Version, sdk.Go.Version)
	}
	if got := main.Require[0].Mod; got.Path != sdk.Module.Mod.Path || got.Version != aRelease {
		t.Errorf("it requires %s", got)
	}
	for _, r := range release.Require {
		if r.Mod.Path == image.Require[0].Mod.Path && r.Mod != image.Require[0].Mod {
			t.Errorf("images are made by %s, ours by %s", image.Require[0].Mod, r.Mod)
		}
	}
}

// A version that no module proxy has would be an error of the go command later on.
func TestOnlyPublishedVersionsAreRequired(t *testing.T) {
	for version, want := range map[string]bool{
		"v0.1.0": true, "v1.2.3-rc.1": true, "v0.1.1-0.20260101000000-0123456789ab": true,
		"v0.0.0-dev": false, "v0.1.0-dev": false, "v0.1.0-dirty": false, "v0.1.0-12-gabcdef0": false, "v0.1.0-rc.1-12-gabcdef0": false, "v0.1.0+dirty": false,
		"v0.1.1-0.20260101000000-0123456789ab+dirty": false, "(devel)": false, "": false,
	} {
		project := render(t, Options{Name: "quota", Hooks: []string{"BeforeClusterCreate"}, SDKVersion: version})
		if got := len(parsed(t, "go.mod", project["go.mod"]).Require) == 1; got != want {
			t.Errorf("%q is required: %t, want %t", version, got, want)
		}
	}
}

// A project can use the SDK of a clone, also in a folder whose name go.mod has to quote.
func TestLocalSDK(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a clone (1)", "sdk")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	one := []string{"BeforeClusterCreate"}
	if _, err := Render(Options{Name: "quota", Hooks: one, SDK: folder}); err == nil || !strings.Contains(err.Error(), "go.mod") {
		t.Errorf("a folder without go.mod: %v", err)
	}
	write := func(module string) {
		if err := os.WriteFile(filepath.Join(folder, "go.mod"), []byte("module "+module+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("github.com/slipway-dev/slipway")
	if _, err := Render(Options{Name: "quota", Hooks: one, SDK: folder}); err == nil || !strings.Contains(err.Error(), "is module") {
		t.Errorf("another module: %v", err)
	}
	write(sdkModule)
	for given, want := range map[string]string{"v0.0.0-dev": "v0.0.0", aRelease: aRelease} {
		mod := parsed(t, "go.mod", render(t, Options{Name: "quota", Hooks: one, SDK: folder, SDKVersion: given})["go.mod"])
		if got := mod.Require[0].Mod.Version; got != want || len(mod.Replace) != 1 || mod.Replace[0].Old.Path != sdkModule || mod.Replace[0].New.Path != folder {
			t.Errorf("version %s requires %s and replaces %+v, want %s", given, got, mod.Replace, folder)
		}
	}
}

func TestRefusals(t *testing.T) {
	one := []string{"BeforeClusterCreate"}
	for want, o := range map[string]Options{
		`name "Quota": `:     {Name: "Quota", Hooks: one},
		`name "": `:          {Hooks: one},
		`name "../quota": `:  {Name: "../quota", Hooks: one},
		`name "1st": `:       {Name: "1st", Hooks: one},
		`module: malformed`:  {Name: "quota", Module: "a b", Hooks: one},
		`no hook is named: `: {Name: "quota"},
		`hook "Bogus" is not known: want some of AfterClusterUpgrade, `: {Name: "quota", Hooks: []string{"BeforeClusterCreate", "Bogus"}},
		`hook "Discovery" is not known: `:                               {Name: "quota", Hooks: []string{"Discovery"}},
		`hook BeforeClusterCreate is named twice`:                       {Name: "quota", Hooks: slices.Repeat(one, 2)},
		`hooks BeforeClusterCreate and BeforeHostClaim cannot be in`:    {Name: "quota", Hooks: []string{"BeforeClusterCreate", "BeforeHostClaim"}},
	} {
		if _, err := Render(o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	project, err := Render(Options{Name: "quota", Hooks: []string{"BeforeClusterCreate"}})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "below", "quota")
	if err := Write(dir, project); err != nil {
		t.Fatal(err)
	}
	for _, f := range project {
		if got, err := os.ReadFile(filepath.Join(dir, f.Path)); err != nil || !bytes.Equal(got, f.Content) {
			t.Errorf("%s: %v\n%s", f.Path, err, got)
		}
	}
	var notEmpty *NotEmptyError
	if err := Write(dir, project); !errors.As(err, &notEmpty) || notEmpty.Dir != dir {
		t.Errorf("twice: %v", err)
	}
	// A file that appears after the look into the folder stays as well.
	racing := t.TempDir()
	twice := []File{{Path: "main.go", Content: []byte("theirs")}, {Path: "main.go", Content: []byte("ours")}}
	if err := Write(racing, twice); !errors.Is(err, os.ErrExist) {
		t.Errorf("got %v", err)
	}
	if got, _ := os.ReadFile(filepath.Join(racing, "main.go")); string(got) != "theirs" {
		t.Errorf("overwritten with %q", got)
	}
	file := filepath.Join(racing, "main.go")
	if err := Write(file, project); err == nil {
		t.Error("a file was taken for a folder")
	}
}

func parsed(t *testing.T, name, content string) *modfile.File {
	t.Helper()
	data := []byte(content)
	if content == "" {
		var err error
		if data, err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	f, err := modfile.Parse(name, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
