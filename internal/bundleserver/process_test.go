package bundleserver_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/procfs"

	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/agent/software"
	"github.com/slipway-dev/slipway/internal/bundleserver"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/hostbundle/registry"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
)

// Variables that make this program one that a test kills or measures.
const (
	asAgent  = "SLIPWAY_TEST_AS_AGENT"
	asServer = "SLIPWAY_TEST_AS_SERVER"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(asAgent); dir != "" {
		err := software.Command(context.Background(), os.Args[1:], os.Stdout, os.Stderr, func(context.Context, string) (registry.Options, error) { return pairOf(dir) })
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if dir := os.Getenv(asServer); dir != "" {
		serveAlone(dir)
		return
	}
	os.Exit(m.Run())
}

// credentials writes what an agent of the host would have, and where the server is.
func (w *world) credentials(name string) string {
	w.t.Helper()
	dir := w.t.TempDir()
	pair := w.agent(name).Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		w.t.Fatal(err)
	}
	for file, data := range map[string][]byte{
		"client.pem": append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...),
		"ca.crt":     w.server.pem, "address": []byte(w.address),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	return dir
}

func pairOf(dir string) (registry.Options, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.pem"))
	ca, caErr := os.ReadFile(filepath.Join(dir, "ca.crt"))
	address, addressErr := os.ReadFile(filepath.Join(dir, "address"))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return registry.Options{Address: registry.Scheme + string(address) + "/" + registry.ManagementRepository,
		TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}}}, errors.Join(err, caErr, addressErr)
}

// The command is killed a dozen times, each time later, and the next one goes on: what is
// installed then is what one would have that was never killed. The last ones may have
// nothing to do, the first one has all of it.
func TestKilled(t *testing.T) {
	w := newWorld(t)
	w.layer = 8 << 20
	w.load(w.layout(runtime.GOARCH, w.signer))
	key := filepath.Join(t.TempDir(), "key.pub")
	if err := os.WriteFile(key, []byte(w.public+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, agent := machine(t), w.credentials("host-1")
	command := func() *exec.Cmd {
		c := exec.CommandContext(t.Context(), os.Args[0], "install", "--from", config.ManagementSource, "--public-key", key, "--kubernetes-version", newer, "--root", string(h.Root))
		c.Env = append(os.Environ(), asAgent+"="+agent)
		return c
	}
	began := time.Now()
	probe := machine(t)
	whole := command()
	whole.Args[len(whole.Args)-1] = string(probe.Root)
	if out, err := whole.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	takes := time.Since(began)
	killed := 0
	const kills = 12
	for n := range kills {
		c := command()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(takes*time.Duration(n)/kills+rand.N(takes/kills), func() { _ = c.Process.Signal(syscall.SIGKILL) })
		if err := c.Wait(); err != nil {
			killed++
		}
		timer.Stop()
	}
	if killed == 0 {
		t.Error("no command was killed")
	}
	if out, err := command().CombinedOutput(); err != nil || !strings.Contains(string(out), "Kubernetes "+newer+" is installed") {
		t.Fatalf("after %d kills: %v\n%s", killed, err, out)
	}
	if got, want := tree(t, h), installedFromDirectory(t, w, newer); got != want {
		t.Errorf("after %d kills have:\n%s\nwant:\n%s", killed, got, want)
	}
}

// serveAlone is a server in a process of its own, until it is killed.
func serveAlone(dir string) {
	var o bundleserver.Options
	o.Dir, o.Address, o.URL = filepath.Join(dir, "store"), os.Getenv("ADDRESS"), "https://127.0.0.1"
	o.CertFile, o.KeyFile, o.ClientCAFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "client-ca.crt")
	o.Downloads, o.DownloadsOfHost = bundleserver.DefaultOptions().Downloads, bundleserver.DefaultOptions().DownloadsOfHost
	server, err := bundleserver.New(o, bundleserver.Hosts{Reader: hostsOf(100)}, logr.Discard())
	if err != nil {
		panic(err)
	}
	panic(server.Start(context.Background()))
}

// BenchmarkHosts has a hundred hosts fetch a bundle of 128 MiB at once, and tells what the
// server took for it: memory that it did not have before, and processor time.
func BenchmarkHosts(b *testing.B) {
	const hosts, layers, size = 100, 8, 16 << 20
	w := newWorld(b)
	w.layer, w.layers = size, layers-1
	server := w.alone(b)
	for range b.N {
		before, begun := server.usage(b), time.Now()
		var all sync.WaitGroup
		for i := range hosts {
			all.Go(func() {
				if err := fetchOnly(b, w, server.address, "host-"+strconv.Itoa(i), server.bundle); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
		after, took := server.usage(b), time.Since(begun)
		b.ReportMetric(float64(after.peak)/(1<<20), "MiB-peak")
		b.ReportMetric(float64(after.peak-before.resident)/(1<<20), "MiB-more")
		b.ReportMetric(after.cpu-before.cpu, "cpu-s")
		b.ReportMetric(took.Seconds(), "s")
		b.ReportMetric(float64(hosts*layers*size)/(1<<20)/took.Seconds(), "MiB/s")
	}
}

// fetchOnly fetches what a host without any software would, and keeps none of it.
func fetchOnly(tb testing.TB, w *world, address, name string, b *hostbundle.Bundle) error {
	s := hostbundle.Staging{Dir: tb.TempDir(), Keys: w.keys}
	source := w.source(name, address)
	if err := source.Stage(tb.Context(), s, newer, runtime.GOARCH); err != nil {
		return err
	}
	for _, c := range b.Components {
		if err := source.Blob(tb.Context(), s, b.Blob(c), nil); err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(s.Dir, "blobs", "sha256", b.Blob(c).Digest.Encoded())); err != nil {
			return err
		}
	}
	return nil
}

// process is a server that is measured.
type process struct {
	pid     int
	address string
	bundle  *hostbundle.Bundle
}

// alone starts a server in a process of its own, with bundles in its store.
func (w *world) alone(b *testing.B) process {
	b.Helper()
	dir := b.TempDir()
	w.store.Dir = filepath.Join(dir, "store")
	w.load(w.layout(runtime.GOARCH, w.signer), newer)
	w.options(dir)
	p := process{address: "127.0.0.1:" + strconv.Itoa(shared.FreePort(b))}
	d, err := hostbundle.OpenDirectory(w.store.Dir)
	if err != nil {
		b.Fatal(err)
	}
	if p.bundle, err = d.Bundle(newer, runtime.GOARCH, w.keys); err != nil {
		b.Fatal(err)
	}
	c := exec.CommandContext(b.Context(), os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), asServer+"="+dir, "ADDRESS="+p.address), os.Stderr
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	p.pid = c.Process.Pid
	w.address = p.address
	poll.Until(b, "the server answers", func() error {
		response, err := w.get(w.agent("host-1"), tags)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	})
	return p
}

type usage struct {
	resident, peak uint64
	cpu            float64
}

func (p process) usage(tb testing.TB) usage {
	tb.Helper()
	proc, err := procfs.NewProc(p.pid)
	if err != nil {
		tb.Fatal(err)
	}
	status, err := proc.NewStatus()
	if err != nil {
		tb.Fatal(err)
	}
	stat, err := proc.Stat()
	if err != nil {
		tb.Fatal(err)
	}
	return usage{resident: status.VmRSS, peak: status.VmHWM, cpu: stat.CPUTime()}
}
