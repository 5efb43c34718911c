package outside

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/extensionproject"
)

// TestExtensionInit makes projects by the command line that a tag installs: each requires
// the SDK by the same tag and passes its own tests.
func TestExtensionInit(t *testing.T) {
	o := newOutsider(t)
	o.run("go", "install", rootModule+"/cmd/kubectl-slipway@"+tag)
	var ofCAPI, ofHost []string
	for _, hook := range extensionproject.Hooks() {
		if strings.Contains(hook, "Host") {
			ofHost = append(ofHost, hook)
		} else {
			ofCAPI = append(ofCAPI, hook)
		}
	}
	for name, hooks := range map[string][]string{"default": nil, "capi": ofCAPI, "host": ofHost} {
		t.Run(name, func(t *testing.T) {
			o := &outsider{t: t, dir: t.TempDir(), env: o.env}
			args := []string{"extension", "init", "my-extension", "--dir", o.dir, "--module", "example.org/platform/my-extension"}
			if hooks != nil {
				args = append(args, "--hooks", strings.Join(hooks, ","))
			}
			o.run(o.bin("kubectl-slipway"), args...)
			o.run("go", "mod", "tidy")
			if got := o.run("go", "list", "-m", "-f", "{{.Version}}", sdkModule); strings.TrimSpace(got) != tag {
				t.Errorf("it requires version %s of the SDK", got)
			}
			o.run("go", "vet", "./...")
			if unformatted := o.run("gofmt", "-l", "."); unformatted != "" {
				t.Errorf("gofmt would change %s", unformatted)
			}
			if tests := o.run("go", "test", "-v", "./..."); !strings.Contains(tests, "--- PASS: TestConformance") {
				t.Errorf("no test of the rules was run: %s", tests)
			}
			if name == "default" {
				testImage(t, o)
			}
		})
	}
}

// testImage makes the image of a project by its Makefile.
func testImage(t *testing.T, o *outsider) {
	t.Helper()
	image := &outsider{t: t, dir: filepath.Join(o.dir, "image"), env: o.env}
	image.run("go", "mod", "tidy")
	image.run("go", "vet", ".")
	// Its make is not one of the make that may run this test.
	builder := &outsider{t: t, dir: o.dir, env: append(slices.Clone(o.env), "MAKEFLAGS=")}
	builder.run("make", "archive", "ARCHITECTURES="+runtime.GOARCH)
	var index struct {
		Manifests []struct {
			Digest      string
			Annotations map[string]string
		}
	}
	layout := filepath.Join(o.dir, "bin", "image")
	data, err := os.ReadFile(filepath.Join(layout, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("%v: %s", err, data)
	}
	if got := index.Manifests[0].Annotations["io.containerd.image.name"]; got != "example.com/my-extension:v0.1.0" {
		t.Errorf("the image is named %q", got)
	}
	_, digest, _ := strings.Cut(index.Manifests[0].Digest, ":")
	if data, err = os.ReadFile(filepath.Join(layout, "blobs", "sha256", digest)); err != nil || !strings.Contains(string(data), `"architecture":"`+runtime.GOARCH+`"`) {
		t.Errorf("%v: %s", err, data)
	}
	if _, err := os.Stat(filepath.Join(o.dir, "bin", "image.tar")); err != nil {
		t.Error(err)
	}
}
