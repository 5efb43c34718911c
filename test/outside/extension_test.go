package outside

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-dev/slipway/internal/extensionproject"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
)

// TestExtensionInit makes projects by the command line that a tag installs: each requires
// the SDK by the same tag and passes its own tests.
func TestExtensionInit(t *testing.T) {
	o := newOutsider(t)
	o.run("go", "install", rootModule+"/cmd/kubectl-slipway@"+tag)
	plugin := o.bin("kubectl-slipway")
	var ofCAPI, ofHost []string
	for _, hook := range extensionproject.Hooks() {
		if strings.Contains(hook, "Host") {
			ofHost = append(ofHost, hook)
		} else {
			ofCAPI = append(ofCAPI, hook)
		}
	}
	sdk, err := filepath.Abs("../../sdk")
	if err != nil {
		t.Fatal(err)
	}
	for name, hooks := range map[string][]string{"default": nil, "capi": ofCAPI, "host": ofHost, "clone": nil} {
		t.Run(name, func(t *testing.T) {
			o := &outsider{t: t, dir: t.TempDir(), env: o.env}
			args := []string{"extension", "init", "my-extension", "--dir", o.dir, "--module", "example.org/platform/my-extension"}
			if hooks != nil {
				args = append(args, "--hooks", strings.Join(hooks, ","))
			}
			local := ""
			if name == "clone" {
				local = sdk
				args = append(args, "--sdk", sdk)
			}
			o.run(plugin, args...)
			o.run("go", "mod", "tidy")
			if got := strings.TrimSpace(o.run("go", "list", "-m", "-f", "{{.Version}} {{with .Replace}}{{.Path}}{{end}}", sdkModule)); got != strings.TrimSpace(tag+" "+local) {
				t.Errorf("it requires %s of the SDK", got)
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
				testRun(t, o, plugin)
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

// testRun serves a project by its Makefile, and checks it.
func testRun(t *testing.T, o *outsider, plugin string) {
	t.Helper()
	address := net.JoinHostPort("localhost", strconv.Itoa(shared.FreePort(t)))
	serving := exec.CommandContext(t.Context(), "make", "run", "ADDRESS="+address)
	serving.Dir, serving.Env = o.dir, append(slices.Clone(o.env), "MAKEFLAGS=")
	serving.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // make, go and the extension end together
	serving.Cancel = func() error { return syscall.Kill(-serving.Process.Pid, syscall.SIGTERM) }
	var said bytes.Buffer
	serving.Stdout, serving.Stderr = &said, &said
	if err := serving.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serving.Wait() }()
	poll.Until(t, "the extension serves", func() error {
		check := exec.CommandContext(t.Context(), plugin, "check", "extension", "https://"+address, "--ca-file", "bin/tls/cert.pem")
		check.Dir, check.Env = o.dir, o.env
		out, err := check.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	if err := serving.Cancel(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !strings.Contains(said.String(), "Shut down") {
		t.Errorf("it ended without draining: %v: %s", err, &said)
	}
}
