package runtime

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// payload is one request with a call of each side.
type payload struct {
	name           string
	ours, upstream func(context.Context) error
	// cpu is how many times less processor time than upstream is asked for,
	// allocations the part of upstream's allocations that is allowed.
	cpu, allocations float64
}

// sample is what one side did in one round.
type sample struct {
	callsPerSecond, allocations float64
	// cpu is the processor time of client and server for one call, which other
	// processes on the machine disturb less than the calls/s.
	cpu time.Duration
}

func TestThroughput(t *testing.T) {
	table := newTable(t, "calls", "concurrency", "calls/s", "upstream", "ratio", "CPU", "upstream", "ratio", "allocations", "upstream", "ratio")
	for _, p := range payloads(t) {
		for _, concurrency := range []int{1, 8, 64} {
			ours, upstream := compare(t, p, concurrency)
			speed, allocations := ours.callsPerSecond/upstream.callsPerSecond, ours.allocations/upstream.allocations
			cpu := float64(upstream.cpu) / float64(ours.cpu)
			table.row(p.name, fmt.Sprint(concurrency),
				fmt.Sprintf("%.0f", ours.callsPerSecond), fmt.Sprintf("%.0f", upstream.callsPerSecond), fmt.Sprintf("%.2f", speed), micro(ours.cpu), micro(upstream.cpu), fmt.Sprintf("%.2f", cpu),
				fmt.Sprintf("%.0f", ours.allocations), fmt.Sprintf("%.0f", upstream.allocations), fmt.Sprintf("%.2f", allocations))
			table.judgef(cpu >= p.cpu, "%s at %d: %.2f times less processor time than upstream, want %.1f", p.name, concurrency, cpu, p.cpu)
			table.judgef(allocations <= p.allocations, "%s at %d: %.2f of upstream's allocations, want %.2f", p.name, concurrency, allocations, p.allocations)
		}
	}
}

func micro(d time.Duration) string { return fmt.Sprintf("%d µs", d.Microseconds()) }

// compare measures both sides in turns, so that a disturbance meets both, and
// returns the medians of each figure.
func compare(t *testing.T, p payload, concurrency int) (ours, upstream sample) {
	turns, length := 1, 20*time.Millisecond
	if *measure {
		turns, length = *rounds, time.Second
	}
	var a, b []sample
	for range turns {
		b = append(b, run(t, p.upstream, concurrency, length))
		a = append(a, run(t, p.ours, concurrency, length))
	}
	return median(a), median(b)
}

// median is that of each figure by itself: the round with the median of calls/s may be the
// one whose processor time another process has disturbed.
func median(list []sample) sample {
	return sample{
		callsPerSecond: middle(list, func(s sample) float64 { return s.callsPerSecond }),
		allocations:    middle(list, func(s sample) float64 { return s.allocations }),
		cpu:            middle(list, func(s sample) time.Duration { return s.cpu }),
	}
}

func middle[T cmp.Ordered](list []sample, figure func(sample) T) T {
	var values []T
	for _, s := range list {
		values = append(values, figure(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// run calls as often as it can for a while, after a warm-up of the connections.
func run(t *testing.T, call func(context.Context) error, concurrency int, length time.Duration) sample {
	t.Helper()
	work(t, call, concurrency, length/5)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start, startCPU := time.Now(), cpuTime(t)
	n := work(t, call, concurrency, length)
	took, cpu := time.Since(start), cpuTime(t)-startCPU
	runtime.ReadMemStats(&after)
	return sample{
		callsPerSecond: float64(n) / took.Seconds(),
		allocations:    float64(after.Mallocs-before.Mallocs) / float64(n),
		cpu:            cpu / time.Duration(n),
	}
}

// cpuTime returns the processor time that this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func work(t *testing.T, call func(context.Context) error, concurrency int, length time.Duration) int {
	t.Helper()
	counts := make([]int, concurrency)
	end := time.Now().Add(length)
	var callers sync.WaitGroup
	for i := range concurrency {
		callers.Go(func() {
			for counts[i] == 0 || time.Now().Before(end) {
				if err := call(t.Context()); err != nil {
					t.Error(err)
					return
				}
				counts[i]++
			}
		})
	}
	callers.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}

func payloads(t testing.TB) []payload {
	ours, upstream := startServers(t)
	config := hooktest.Config("bench", ours.url, ours.ca.PEM)
	config = hooktest.Handler(config, capi.BeforeClusterCreate, "create", runtimev1.FailurePolicyFail, 10)
	config = hooktest.Handler(config, capi.GeneratePatches, "patch", runtimev1.FailurePolicyFail, 10)
	c := newClient(t, config)
	caller := newUpstreamCaller(t, upstream.url, upstream.ca)
	object := cluster(0)
	create := func(name string, request *hooksv1.BeforeClusterCreateRequest) payload {
		return payload{name: fmt.Sprintf("%s, %d KB", name, size(t, request)/1000), cpu: 1.2, allocations: 0.55,
			ours: func(ctx context.Context) error {
				_, err := client.Call(ctx, c, capi.BeforeClusterCreate, "create.bench", object, request)
				return err
			},
			upstream: func(ctx context.Context) error {
				return caller.call(ctx, capi.BeforeClusterCreate.Definition().Name, "create", request, &hooksv1.BeforeClusterCreateResponse{})
			}}
	}
	patch := func(name string, request *hooksv1.GeneratePatchesRequest) payload {
		return payload{name: fmt.Sprintf("%s, %d KB", name, size(t, request)/1000), cpu: 1.5, allocations: 0.8,
			ours: func(ctx context.Context) error {
				_, err := client.Call(ctx, c, capi.GeneratePatches, "patch.bench", object, request)
				return err
			},
			upstream: func(ctx context.Context) error {
				return caller.call(ctx, capi.GeneratePatches.Definition().Name, "patch", request, &hooksv1.GeneratePatchesResponse{})
			}}
	}
	return []payload{
		create("BeforeClusterCreate", &hooksv1.BeforeClusterCreateRequest{Cluster: *cluster(10)}),
		patch("GeneratePatches", patches(2)),
		create("BeforeClusterCreate", &hooksv1.BeforeClusterCreateRequest{Cluster: *cluster(284)}),
		patch("GeneratePatches", patches(56)),
	}
}

// served is an extension that serves in this process.
type served struct {
	url string
	ca  *hooktest.CA
}

func startServers(t testing.TB) (ours, upstream served) {
	t.Helper()
	start := func(serve func(ctx context.Context, certFile, keyFile, address string) error) served {
		ca := hooktest.NewCA(t)
		certFile, keyFile := ca.Files(t.TempDir(), "server")
		address := freeAddress(t)
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		done := make(chan error, 1)
		go func() { done <- serve(ctx, certFile, keyFile, address) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("serve: %v", err)
			}
		})
		waitFor(t, address)
		return served{url: "https://" + address, ca: ca}
	}
	return start(serveOurs), start(func(ctx context.Context, certFile, _, address string) error {
		return serveUpstream(ctx, certFile, address)
	})
}

// freeAddress returns a loopback address at which nobody listened a moment ago:
// upstream's server takes a port, not a listener.
func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed at once
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func waitFor(t testing.TB, address string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", address) //nolint:noctx // loopback
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
