package reset_test

import (
	"crypto/md5" //nolint:gosec // what dpkg has of each file
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
// and 1,000 routes, and the database of dpkg with 500 packages, one of which is upgraded meanwhile: a record, the look at what changed when the bootstrap has ended, and a proof. record-bytes is
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
	upgrade := dpkg(b, h)
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
		upgrade(1)
		baseline, err := c.Baseline(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		upgrade(2)
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

// dpkg makes its database, as a server has it, and returns what gives the first package a version: its configuration file, its sum and the
// list of packages.
func dpkg(b *testing.B, h *fakehost.Host) (upgrade func(version int)) {
	b.Helper()
	const packages, files = 500, 100
	for n := range packages {
		var list, sums strings.Builder
		for i := range files {
			name := fmt.Sprintf("usr/share/package-%d/some/directory/file-%d.data", n, i)
			fmt.Fprintf(&list, "/%s\n", name)
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum([]byte(name)), name) //nolint:gosec // what dpkg has of each file
		}
		at := fmt.Sprintf("/var/lib/dpkg/info/package-%d", n)
		h.Put(b, at+".list", list.String())
		h.Put(b, at+".md5sums", sums.String())
		h.Put(b, at+".postinst", "#!/bin/sh\n")
	}
	return func(version int) {
		const configuration = "/etc/application-0/configuration-0.conf"
		content := strings.Repeat(fmt.Sprintf("version = %d\n", version), 200)
		h.Put(b, configuration, content)
		var status strings.Builder
		for n := range packages {
			fmt.Fprintf(&status, "Package: package-%d\nStatus: install ok installed\nArchitecture: amd64\nVersion: %d\n", n, max(1, version-n))
			if n == 0 {
				fmt.Fprintf(&status, "Conffiles:\n %s %x\n", configuration, md5.Sum([]byte(content))) //nolint:gosec // as above
			}
			status.WriteString("Description: a package\n of several lines\n\n")
		}
		h.Put(b, "/var/lib/dpkg/status", status.String())
	}
}
