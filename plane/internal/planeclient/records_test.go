package planeclient

import (
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/plane/internal/service"
	"github.com/slipway-dev/slipway/plane/internal/service/fakesystemd"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// Records are there whether the plane runs or not; what it serves is asked for when it is
// read.
func TestRecords(t *testing.T) {
	dir := t.TempDir()
	inst := &instance.Instance{Dir: dir}
	if err := os.WriteFile(inst.PlaneLog(), []byte("it ran\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := Plane{Instance: inst, Manager: &localhost.Manager{StateDir: dir}}
	records, err := p.Records(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	read := func(i int) (string, error) {
		from, err := records[i].Open(t.Context())
		if err != nil {
			return "", err
		}
		defer func() { _ = from.Close() }()
		text, err := io.ReadAll(from)
		return string(text), err
	}
	var names []string
	for _, r := range records {
		names = append(names, r.Name)
	}
	if !slices.Equal(names, []string{"plane/plane.log", "plane/readyz.txt", "plane/metrics.txt", "plane/lifecycle-metrics.txt"}) {
		t.Fatalf("records %q", names)
	}
	if text, err := read(0); err != nil || text != "it ran\n" {
		t.Errorf("%v %q", err, text)
	}
	if text, err := read(2); err == nil {
		t.Errorf("a plane that does not run served %q", text)
	}
	listener, err := net.Listen("unix", statedir.Socket(dir))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "of "+r.URL.Path) })}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	if text, err := read(3); err != nil || text != "of /lifecycle/metrics" {
		t.Errorf("%v %q", err, text)
	}
}

// Those of a plane that systemd runs: what it left before, and the journal.
func TestRecordsOfAService(t *testing.T) {
	systemd := fakesystemd.New(t)
	systemd.Write("journal", "it runs\n")
	dir := t.TempDir()
	p := Plane{Instance: &instance.Instance{Dir: dir}, Manager: &localhost.Manager{StateDir: dir}, Services: systemd.Machine}
	if _, _, err := systemd.Machine.Install(t.Context(), service.Unit{Plane: "slipway", Program: "/usr/local/bin/slipway", StateDir: dir}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.Instance.PlaneLog()+".1", []byte("it ran\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	records, err := p.Records(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ name, text string }{{"plane/plane.log.1", "it ran\n"}, {"plane/journal.log", "it runs\n"}} {
		from, err := records[i].Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(from); err != nil || records[i].Name != want.name || string(text) != want.text {
			t.Errorf("%s: %v %q, want %+v", records[i].Name, err, text, want)
		}
		_ = from.Close()
	}
}
