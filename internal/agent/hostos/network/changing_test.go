package network

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

// TestListsThatChange: while rules of a firewall, nexthops and routes come and go, a list has each entry that stays once. It goes on
// until the kernel has cut lists short, as lists of the test's own say.
func TestListsThatChange(t *testing.T) {
	if os.Getuid() != 0 {
		rights.Skip(t, "needs root for a network namespace")
	}
	if _, err := exec.LookPath("nft"); err != nil {
		rights.Skip(t, "the test needs nft")
	}
	runtime.LockOSThread() // the thread ends with the test, and its namespace with it
	ns, err := netns.New()
	if err != nil {
		rights.Skip(t, "no network namespace:", err)
	}
	defer func() { _ = ns.Close() }()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	loopback, err := netlink.LinkByName("lo")
	must(err)
	must(netlink.LinkSetUp(loopback))
	const stay = 400
	var script strings.Builder
	script.WriteString("add table ip own\nadd chain ip own passing\nadd chain ip own staying\n")
	for i := range stay {
		fmt.Fprintf(&script, "add rule ip own staying tcp dport %d accept\n", i+1)
		_, to, _ := net.ParseCIDR(fmt.Sprintf("10.200.%d.%d/32", i/250, i%250))
		must(netlink.RouteAdd(&netlink.Route{LinkIndex: loopback.Attrs().Index, Dst: to}))
	}
	run := func(script string) {
		t.Helper()
		command := exec.Command("nft", "-f", "-")
		command.Stdin = strings.NewReader(script)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("nft: %v: %s", err, out)
		}
	}
	run(script.String())
	of := func(kind Kind) (n int) {
		t.Helper()
		found, err := Kernel{}.Entries(kind)
		must(err)
		for name := range found {
			if strings.HasPrefix(name, "rule ip own staying ") || strings.HasPrefix(name, "10.200.") {
				n++
			}
		}
		return n
	}

	// Another thread of the namespace changes what comes before the entries that stay.
	end, ended := atomic.Bool{}, make(chan error)
	go func() {
		runtime.LockOSThread()
		err := netns.Set(ns)
		var passing strings.Builder
		passing.WriteString("flush chain ip own passing\n")
		for i := range 200 {
			fmt.Fprintf(&passing, "add rule ip own passing tcp dport %d accept\n", 1000+i)
		}
		for err == nil && !end.Load() {
			command := exec.Command("nft", "-f", "-")
			command.Stdin = strings.NewReader(passing.String())
			if err = command.Run(); err != nil {
				break
			}
			command = exec.Command("nft", "flush", "chain", "ip", "own", "passing")
			err = command.Run()
		}
		ended <- err
	}()
	cut := 0
	for cut < 5 {
		_, err := dump(unix.NETLINK_NETFILTER, unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETRULE, []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0})
		if errors.Is(err, netlink.ErrDumpInterrupted) {
			cut++
		} else {
			must(err)
		}
		if n := of(NFTables); n != stay {
			t.Errorf("%d rules of the %d that stay are listed", n, stay)
			break
		}
		if n := of(Routes); n != stay {
			t.Errorf("%d routes of the %d that stay are listed", n, stay)
			break
		}
	}
	end.Store(true)
	must(<-ended)
}
