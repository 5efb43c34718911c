package hooktest_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// failing is a test that may fail.
type failing struct {
	testing.TB
	failure string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestCallHasNoCertificate calls a server that wants client certificates: it refuses,
// in memory as over TLS, and the test is told what to do.
func TestCallHasNoCertificate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, hooktest.NewCA(t).PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := extension.New(extension.Options{ClientCAFile: file})
	if err != nil {
		t.Fatal(err)
	}
	called := false
	if err := extension.Handle(server, capi.BeforeClusterCreate, "h", func(context.Context, *hooksv1.BeforeClusterCreateRequest) (*hooksv1.BeforeClusterCreateResponse, error) {
		called = true
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	f, ended := &failing{TB: t}, make(chan struct{})
	go func() {
		defer close(ended)
		hooktest.Call(f, server, capi.BeforeClusterCreate, "h", &hooksv1.BeforeClusterCreateRequest{})
	}()
	<-ended
	if called || !strings.Contains(f.failure, "HTTP status 401") || !strings.Contains(f.failure, "leave ClientCAFile out") {
		t.Errorf("called: %t, the test failed with %q", called, f.failure)
	}
}

// TestGzipBomb holds that the bomb is small on the wire, and large to who reads it.
func TestGzipBomb(t *testing.T) {
	const size = 3<<20 + 1
	wire := httptest.NewRecorder()
	hooktest.GzipBomb(size)(wire, nil)
	if wire.Body.Len() > size/100 {
		t.Errorf("%d bytes on the wire for %d", wire.Body.Len(), size)
	}
	z, err := gzip.NewReader(wire.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil || len(text) < size || !json.Valid(text) {
		t.Errorf("it becomes %d bytes, want %d or more of JSON; %v", len(text), size, err)
	}
}
