package provider_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/test/conformance/judge"
	"github.com/slipway-dev/slipway/test/conformance/provider"
)

// TestInPlaceUpdates lets upstream's core, unchanged, update Machines in place through the
// hooks of this provider, which it calls with its client certificate.
func TestInPlaceUpdates(t *testing.T) {
	level.Deep(t)
	kit, dir := judge.NewKit(), t.TempDir()
	scheme, err := provider.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	workload, err := judge.StartServer(scheme)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, workload) })
	free, err := shared.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	ca := hooktest.NewCA(t)
	caFile := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(caFile, ca.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key := ca.Files(dir, "core")
	address := fmt.Sprintf("127.0.0.1:%d", free[0])
	flags := append(judge.Elected("slipway-system"),
		"--feature-gates=InPlaceUpdates=true", "--extension-address="+address, "--extension-client-ca-file="+caFile)
	subject, err := provider.Slipway(t.Context(), kit, "slipway", []provider.Contract{provider.V1Beta2}, flags...)
	if err != nil {
		t.Fatal(err)
	}
	core := judge.Core
	core.Flags = append(slices.Clone(core.Flags), "--feature-gates=RuntimeSDK=true,InPlaceUpdates=true",
		"--runtime-extension-client-cert-file="+cert, "--runtime-extension-client-key-file="+key)
	plane, err := judge.Start(t.Context(), judge.Options{Kit: kit, Dir: dir, Scheme: scheme, Subjects: []judge.Subject{subject, core, judge.KubeadmBootstrap}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, plane) })
	suite, err := provider.NewSuite(provider.V1Beta2, kit, plane, workload)
	if err != nil {
		t.Fatal(err)
	}
	suite.MoreVersions = []string{provider.NewerVersion}
	register(t, plane, "https://"+address)
	provider.InPlaceUpdates(t, suite)
	if err := plane.Failures(); err != nil {
		t.Error(err)
	}
	for _, line := range plane.Logged("is forbidden: User") {
		t.Errorf("a right is missing: %s", line)
	}
}

// register applies the ExtensionConfig of the release, of which only the address differs,
// and waits until core has discovered the handlers.
func register(t *testing.T, plane *judge.Plane, url string) {
	t.Helper()
	data, err := os.ReadFile("../../../config/extension/extensionconfig.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := judge.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	config := objects[0]
	config.SetAnnotations(nil)
	at := map[string]any{"url": url, "caBundle": base64.StdEncoding.EncodeToString(plane.CA())}
	if err := unstructured.SetNestedField(config.Object, at, "spec", "clientConfig"); err != nil {
		t.Fatal(err)
	}
	if err := plane.Client.Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "core has discovered the handlers", func() error {
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(schema.GroupVersionKind{Group: "runtime.cluster.x-k8s.io", Version: "v1beta2", Kind: "ExtensionConfig"})
		if err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(config), found); err != nil {
			return err
		}
		if handlers, _, err := unstructured.NestedSlice(found.Object, "status", "handlers"); err != nil || len(handlers) != 3 {
			return fmt.Errorf("handlers %v, status %v, %w", handlers, found.Object["status"], err)
		}
		return nil
	})
}
