package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/openapi"
)

func TestOpenAPICommand(t *testing.T) {
	out, err := run(t, "openapi", "--catalog", "host")
	if err != nil {
		t.Fatal(err)
	}
	document, err := openapi.Parse([]byte(out))
	if err != nil || len(document.Paths) != 2 {
		t.Errorf("%v, %d paths", err, len(document.Paths))
	}
	asYAML, err := run(t, "openapi", "--catalog", "host", "-o", "yaml")
	if err != nil {
		t.Fatal(err)
	}
	back, err := yaml.YAMLToJSON([]byte(asYAML))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := openapi.Parse(back); err != nil || len(again.Paths) != 2 {
		t.Errorf("as YAML: %v", err)
	}
	for _, args := range [][]string{{"--catalog", "none"}, {"-o", "xml"}, {"--serve", "--listen", "0.0.0.0:0"}, {"--serve", "--listen", "here"}, {"surplus"}} {
		if _, err := run(t, append([]string{"openapi"}, args...)...); err == nil {
			t.Errorf("openapi %s succeeds", strings.Join(args, " "))
		}
	}
}

// TestOpenAPIDiff compares what this release calls with itself, as YAML, and with a
// document that has one hook more.
func TestOpenAPIDiff(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	all, err := run(t, "openapi", "-o", "yaml")
	if err != nil {
		t.Fatal(err)
	}
	host, err := run(t, "openapi", "--catalog", "host")
	if err != nil {
		t.Fatal(err)
	}
	allFile, hostFile := write("all.yaml", all), write("host.json", host)
	out, err := run(t, "openapi", "diff", allFile)
	if err != nil || !strings.Contains(out, "0 breaking, 0 additions") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = run(t, "openapi", "diff", hostFile)
	if err != nil || !strings.Contains(out, "0 breaking, 17 additions") {
		t.Errorf("%v\n%s", err, out)
	}
	var exit *ExitError
	out, err = run(t, "openapi", "diff", allFile, hostFile, "-o", "json")
	var difference openapi.Difference
	if !errors.As(err, &exit) || exit.Code != exitFindings {
		t.Errorf("17 hooks were removed: %v", err)
	}
	if err := json.Unmarshal([]byte(out), &difference); err != nil || len(difference.Breaking) != 17 || difference.Additions == nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, args := range [][]string{{}, {"/nowhere"}, {write("text", ":\n:")}, {write("empty.yaml", "{}")}, {allFile, "/nowhere"}, {allFile, "--catalog", "none"}, {allFile, hostFile, "surplus"}} {
		if _, err := run(t, append([]string{"openapi", "diff"}, args...)...); err == nil || errors.As(err, &exit) {
			t.Errorf("%v: got %v, want an error", args, err)
		}
	}
}

// TestOpenAPIServe reads the page as a browser would, and ends with the context.
func TestOpenAPIServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	root := plugin()
	root.SetOut(writer)
	root.SetArgs([]string{"openapi", "--serve"})
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	line := make([]byte, 100)
	n, err := reader.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Get(strings.TrimSpace(string(line[:n])) + "v3/capi.json")
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", response, err)
	}
	if err == nil {
		_ = response.Body.Close()
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("an interrupt is not an error: %v", err)
	}
}

func TestCheckExtension(t *testing.T) {
	ext := hooktest.Start(t, extension.Options{}, func(s *extension.Server) error {
		return extension.Handle(s, capi.BeforeClusterCreate, "h", func(context.Context, *hooksv1.BeforeClusterCreateRequest) (*hooksv1.BeforeClusterCreateResponse, error) {
			return nil, nil
		})
	})
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, ext.CA.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "check", "extension", ext.URL, "--ca-file", ca)
	if err != nil || !strings.Contains(out, "determinism/h") || !strings.Contains(out, " 0 failed") {
		t.Errorf("%v\n%s", err, out)
	}
	var exit *ExitError
	out, err = run(t, "check", "extension", ext.URL, "-o", "json")
	var report struct {
		OK     bool
		Checks []struct {
			Check   string
			OK      bool
			Message string
		}
	}
	if !errors.As(err, &exit) || exit.Code != exitFindings {
		t.Errorf("an extension that is not trusted: %v", err)
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.OK || len(report.Checks) != 1 || !strings.Contains(report.Checks[0].Message, "not trusted") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, args := range [][]string{{}, {ext.URL, "--ca-file", "/nowhere"}, {ext.URL, "--catalog", "none"}, {ext.URL, "--cert-file", ca}} {
		if _, err := run(t, append([]string{"check", "extension"}, args...)...); err == nil || errors.As(err, &exit) {
			t.Errorf("%v: got %v, want an error", args, err)
		}
	}
}

func TestParseTarget(t *testing.T) {
	file := filepath.Join(t.TempDir(), "next.json")
	out, err := run(t, "openapi", "--catalog", "capi")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	for target, hooks := range map[string]int{"capi/v1.15.0": 17, "host/v0.2.0": 2, file: 17} {
		to, err := parseTarget(target)
		if err != nil || len(to.catalog.All()) < hooks || len(to.groups) != 1 {
			t.Errorf("%s: %v", target, err)
		}
	}
	for _, target := range []string{"", "capi/", "capi/latest", "other/v1.0.0", "/nowhere", "/dev/null"} {
		if _, err := parseTarget(target); err == nil {
			t.Errorf("%q was accepted", target)
		}
	}
}

func TestRegisteredUses(t *testing.T) {
	s := runtime.NewScheme()
	if err := errors.Join(runtimev1.AddToScheme(s), runtimev1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	upstream := hooktest.Handler(hooktest.Config("a", "https://a", nil), capi.BeforeClusterCreate, "h", "", 0)
	own := &runtimev1alpha1.HostExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	own.Status.Handlers = []runtimev1.ExtensionHandler{{
		Name:        "h.b",
		RequestHook: runtimev1.GroupVersionHook{APIVersion: "hooks.infrastructure.slipway.dev/v1alpha1", Hook: "BeforeHostClaim"},
	}}
	objects := []client.Object{upstream, own}
	c := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).Build()
	for target, want := range map[string]string{"host/v0.2.0": "h.b", "capi/v1.15.0": "h.a"} {
		to, err := parseTarget(target)
		if err != nil {
			t.Fatal(err)
		}
		uses, err := registeredUses(t.Context(), c, to)
		if err != nil || len(uses) != 1 || uses[0].Handler != want {
			t.Errorf("%s: %v, %v", target, uses, err)
		}
		findings := hook.CheckUpgrade(to.catalog, to.release, uses)
		if target == "host/v0.2.0" && (len(findings) != 1 || findings[0].Severity != hook.SeverityBlock) {
			t.Errorf("findings %v", findings)
		}
		var out strings.Builder
		if err := writeFindings(&out, len(uses), findings); err != nil || !strings.Contains(out.String(), map[bool]string{true: "h.b", false: "nothing in the way"}[len(findings) > 0]) {
			t.Errorf("%v %s", err, out.String())
		}
		out.Reset()
		if err := upgradeResult(len(uses), findings).write(&out, outputJSON); err != nil || !strings.Contains(out.String(), `"findings":[`) {
			t.Errorf("%v %s", err, out.String())
		}
	}
	if err := c.Create(t.Context(), &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "unknown"}}); err != nil {
		t.Fatal(err)
	}
	to, err := parseTarget("capi/v1.15.0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registeredUses(t.Context(), c, to); err == nil || !strings.Contains(err.Error(), "ExtensionConfig unknown") {
		t.Errorf("an extension that was never discovered: %v", err)
	}
}
