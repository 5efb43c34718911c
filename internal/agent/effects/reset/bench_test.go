package reset_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// The targets of docs/performance.md.
const (
	mostSeconds = 1.5
	mostBytes   = 2 << 20
)

// BenchmarkProof is what the record and the proof add to a claim, on a host with 20,000 files of 4 KiB in /etc
// and 1,000 routes: a record, the look at what changed when the bootstrap has ended, and a proof. record-bytes is
// what stays on the disk, cpu-s what a busy machine does not prolong.
func BenchmarkProof(b *testing.B) {
	if os.Getuid() != 0 {
		rights.Skip(b, "needs root for a network namespace")
	}
	runtime.LockOSThread() // the thread ends with the benchmark, and its namespace with it
	if _, err := netns.New(); err != nil {
		rights.Skip(b, "no network namespace:", err)
	}
	loopback, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(loopback)
	}
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		_, to, _ := net.ParseCIDR(fmt.Sprintf("10.%d.%d.0/24", i/250, i%250))
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: loopback.Attrs().Index, Dst: to}); err != nil {
			b.Fatal(err)
		}
	}
	h := fakehost.New(b)
	for i := range 20000 {
		path := h.Root.Path(fmt.Sprintf("/etc/application-%d/configuration-%d.conf", i/100, i))
		if i%100 == 0 {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				b.Fatal(err)
			}
		}
		if err := os.WriteFile(path, []byte(strings.Repeat(fmt.Sprintf("setting-%d = value\n", i), 200)), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	c := h.Executor.Cleaner
	c.Network = network.Kernel{}
	var size int64
	used := func() time.Duration {
		u := unix.Rusage{}
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	began := used()
	for b.Loop() {
		baseline, err := c.Baseline(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		p := &progress{state: journal.State{Baseline: baseline, Residue: journal.ResidueFiles}}
		if err := c.RecordMade(b.Context(), p); err != nil {
			b.Fatal(err)
		}
		if left, err := c.Verify(b.Context(), p.state); err != nil || len(left) > 0 {
			b.Fatal(left, err)
		}
		info, err := os.Stat(filepath.Join(c.Records, baseline.Record))
		if err != nil {
			b.Fatal(err)
		}
		size = info.Size()
	}
	took := (used() - began).Seconds() / float64(b.N)
	b.ReportMetric(took, "cpu-s/op")
	b.ReportMetric(float64(size), "record-bytes")
	if took > mostSeconds || size > mostBytes {
		b.Errorf("a claim costs %.2f CPU seconds and %d bytes, want %.1f and %d at most", took, size, mostSeconds, mostBytes)
	}
}
