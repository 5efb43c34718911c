package runtime

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// maxGrowth is how much memory a hostile peer may cost, in MiB.
const maxGrowth = 64

// TestHostileRequests measures servers. Ours is judged in every run: memory does
// not depend on how busy the machine is.
func TestHostileRequests(t *testing.T) {
	level.Deep(t)
	attacks := []struct {
		name   string
		attack func(*attacker)
	}{
		{"64 MiB, announced", func(a *attacker) { flood(crowd(), a.announced) }},
		{"endless", func(a *attacker) { flood(crowd(), a.endless) }},
		{"gzip bomb of 256 MiB", func(a *attacker) { flood(crowd(), a.gzipBomb) }},
		{"a million empty items", func(a *attacker) {
			body := many(1_000_000)
			flood(crowd(), func() { a.valid(body) })
		}},
	}
	table := newTable(t, "requests, 8 at a time", "memory over idle", "upstream")
	for _, tt := range attacks {
		ours := attackServer(t, "server-ours", tt.attack)
		table.row(tt.name, mebibytes(ours), upstreamOnly(func() string { return mebibytes(attackServer(t, "server-upstream", tt.attack)) }))
		if ours > maxGrowth {
			t.Errorf("%s: memory grew by %.0f MiB, want at most %d", tt.name, ours, maxGrowth)
		}
	}
}

// TestStalledRequests holds 32 connections at 19 of 20 MiB.
func TestStalledRequests(t *testing.T) {
	level.Deep(t)
	const connections, patience = 32, 25 * time.Second
	table := newTable(t, "32 connections stalled at 19 MiB", "memory over idle", "closed after 25 s")
	stall := func(role string) (grown float64, closed int) {
		c, a := startServer(t, role)
		a.valid([]byte(`{}`))
		grown, _ = c.grown(func() { closed = a.stall(connections, patience) })
		return grown, closed
	}
	grown, closed := stall("server-ours")
	table.row("ours", mebibytes(grown), fmt.Sprint(closed))
	if grown > maxGrowth {
		t.Errorf("memory grew by %.0f MiB, want at most %d", grown, maxGrowth)
	}
	if closed != connections {
		t.Errorf("%d of %d connections were closed after %s", closed, connections, patience)
	}
	if *measure {
		grown, closed := stall("server-upstream")
		table.row("upstream", mebibytes(grown), fmt.Sprint(closed))
	}
}

func attackServer(t *testing.T, role string, attack func(*attacker)) float64 {
	t.Helper()
	c, a := startServer(t, role)
	a.valid([]byte(`{}`))
	grown, took := c.grown(func() { attack(a) })
	t.Logf("%s: %.0f MiB in %s", role, grown, took)
	return grown
}

// TestHostileAnswers measures callers, in a process of their own.
func TestHostileAnswers(t *testing.T) {
	level.Deep(t)
	faults := []struct {
		name  string
		fault http.HandlerFunc
	}{
		{"256 MiB", hooktest.Endless(256 << 20)},
		{"endless", hooktest.Endless(0)},
		{"gzip bomb of 256 MiB", hooktest.GzipBomb(256 << 20)},
	}
	table := newTable(t, "answers, 8 at a time", "memory over idle", "upstream")
	for _, tt := range faults {
		ours := attackCaller(t, "caller-ours", tt.fault)
		table.row(tt.name, mebibytes(ours), upstreamOnly(func() string {
			if tt.name == "endless" {
				return "not tried: it reads on"
			}
			return mebibytes(attackCaller(t, "caller-upstream", tt.fault))
		}))
		if ours > maxGrowth {
			t.Errorf("%s: memory grew by %.0f MiB, want at most %d", tt.name, ours, maxGrowth)
		}
	}
}

func attackCaller(t *testing.T, role string, fault http.HandlerFunc) float64 {
	t.Helper()
	f := hooktest.StartFaults(t, hooktest.Body(`{"status":"Success"}`))
	caFile := t.TempDir() + "/ca.crt"
	if err := os.WriteFile(caFile, f.CA.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	c := startChild(t, role, f.URL, caFile)
	if answer := c.ask("1"); answer != "1 of 1 succeeded" {
		t.Fatalf("%s: %s", role, answer)
	}
	f.Set(fault)
	grown, _ := c.grown(func() { c.ask(strconv.Itoa(crowd())) })
	return grown
}

// callOurs calls as often, at the same time, as each line of its input says.
func callOurs(ctx context.Context, url, caFile string) error {
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return err
	}
	config := hooktest.Handler(hooktest.Config("ext", url, ca), capi.BeforeClusterCreate, "create", runtimev1.FailurePolicyFail, 30)
	c, err := clientFor(config)
	if err != nil {
		return err
	}
	object := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
	return callOnDemand(func() error {
		_, err := client.Call(ctx, c, capi.BeforeClusterCreate, "create.ext", object, &hooksv1.BeforeClusterCreateRequest{})
		return err
	})
}

func callUpstream(ctx context.Context, url, caFile string) error {
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return err
	}
	c := upstreamCallerFor(url, ca)
	return callOnDemand(func() error {
		return c.call(ctx, capi.BeforeClusterCreate.Definition().Name, "create", &hooksv1.BeforeClusterCreateRequest{}, &hooksv1.BeforeClusterCreateResponse{})
	})
}

func callOnDemand(call func() error) error {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var n int
		if _, err := fmt.Sscan(lines.Text(), &n); err != nil {
			return err
		}
		results := make(chan error, n)
		flood(n, func() { results <- call() })
		succeeded := 0
		for range n {
			if <-results == nil {
				succeeded++
			}
		}
		fmt.Printf("%d of %d succeeded\n", succeeded, n)
	}
	return nil
}

// TestHungExtension calls an extension that never answers, 50 times.
func TestHungExtension(t *testing.T) {
	timeout := int32(1)
	if *measure {
		timeout = 10
	}
	f := hooktest.StartFaults(t, hooktest.Hang())
	config := hooktest.Handler(hooktest.Config("ext", f.URL, f.CA.PEM), capi.BeforeClusterCreate, "create", runtimev1.FailurePolicyFail, timeout)
	c := newClient(t, config)
	start := time.Now()
	for range 50 {
		_, err := client.Call(t.Context(), c, capi.BeforeClusterCreate, "create.ext", cluster(0), &hooksv1.BeforeClusterCreateRequest{})
		var failed *client.CallError
		if !errors.As(err, &failed) {
			t.Fatalf("got %v, want a CallError", err)
		}
	}
	took := time.Since(start)
	table := newTable(t, "50 calls of an extension that hangs", "requests", "caller-seconds")
	table.row("ours", fmt.Sprint(f.Requests()), fmt.Sprintf("%.0f", took.Seconds()))
	table.row("upstream, which has no breaker", "50", "500")
	if f.Requests() > 2 || took > 2*time.Duration(timeout)*time.Second {
		t.Errorf("%d requests in %s, want at most 2 in twice the timeout", f.Requests(), took)
	}
}

// TestFanOut calls 20 handlers that take 50 ms each.
func TestFanOut(t *testing.T) {
	f := hooktest.StartFaults(t, hooktest.Slow(50*time.Millisecond, `{"status":"Success"}`))
	config := hooktest.Config("ext", f.URL, f.CA.PEM)
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("h%02d", i))
		config = hooktest.Handler(config, capi.BeforeClusterCreate, names[i], runtimev1.FailurePolicyFail, 10)
	}
	c, upstream := newClient(t, config), newUpstreamCaller(t, f.URL, f.CA)
	all := func() time.Duration {
		start := time.Now()
		if _, err := client.CallAll(t.Context(), c, capi.BeforeClusterCreate, cluster(0), &hooksv1.BeforeClusterCreateRequest{}); err != nil {
			t.Fatal(err)
		}
		return time.Since(start)
	}
	all() // makes the connections
	ours := min(all(), all(), all())
	table := newTable(t, "20 handlers of 50 ms", "time")
	table.row("ours", fmt.Sprintf("%d ms", ours.Milliseconds()))
	table.judgef(ours <= 75*time.Millisecond, "20 handlers of 50 ms took %s, want at most 75 ms", ours)
	if !*measure {
		return
	}
	start := time.Now()
	for _, name := range names {
		if err := upstream.call(t.Context(), capi.BeforeClusterCreate.Definition().Name, name, &hooksv1.BeforeClusterCreateRequest{}, &hooksv1.BeforeClusterCreateResponse{}); err != nil {
			t.Fatal(err)
		}
	}
	table.row("upstream, one after the other", fmt.Sprintf("%d ms", time.Since(start).Milliseconds()))
}

func mebibytes(n float64) string { return strings.TrimSpace(fmt.Sprintf("%.0f MiB", max(n, 0))) }

// upstreamOnly measures upstream when figures count.
func upstreamOnly(figure func() string) string {
	if !*measure {
		return ""
	}
	return figure()
}
