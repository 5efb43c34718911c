package serve

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"

	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/slipway-dev/slipway/plane/internal/etcd"
	"github.com/slipway-dev/slipway/test/logs"
)

// TestLogOfTheClientOfEtcd has the API server's client ask an etcd, and take the question back, in
// a process of its own: its logger is made when that begins, and writes to standard error.
func TestLogOfTheClientOfEtcd(t *testing.T) {
	const asks = "SLIPWAY_TEST_ASKS_ETCD"
	if os.Getenv(asks) != "" {
		server := etcd.New(etcd.Options{Dir: t.TempDir(), Fast: true})
		for _, step := range []func(context.Context) error{server.Init, server.Start} {
			if err := step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		defer func() { _ = server.Stop(context.WithoutCancel(t.Context())) }()
		prober, err := factory.CreateProber(storagebackend.Config{Transport: storagebackend.TransportConfig{ServerList: []string{server.Endpoint()}}})
		if err != nil {
			t.Fatal(err)
		}
		defer prober.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := prober.Probe(ctx); err == nil {
			t.Fatal("a question that was taken back is answered")
		}
		return
	}
	// what it asks is an etcd of its own, so it needs no API server, which -short says
	command := exec.Command(os.Args[0], "-test.short", "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), asks+"=1")
	var log bytes.Buffer
	command.Stderr = &log
	if out, err := command.Output(); err != nil {
		t.Fatalf("%v\n%s%s", err, out, log.Bytes())
	}
	// gRPC below it has a log of its own
	var own bytes.Buffer
	for line := range bytes.Lines(log.Bytes()) {
		if bytes.Contains(line, []byte(`"logger":"etcd-client"`)) {
			own.Write(line)
		}
	}
	if own.Len() == 0 {
		t.Fatalf("the client logs nothing: %s", log.Bytes())
	}
	_, wrong, err := logs.Judge(&own)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range wrong {
		t.Error(fault)
	}
}
