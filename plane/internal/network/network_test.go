package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

var instances atomic.Int32

// newNetwork is a network of its own that is gone when the test ends.
func newNetwork(t *testing.T) string {
	t.Helper()
	err := OnOwnThread(func() error { return unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS) })
	if err != nil {
		rights.Skip(t, "FABRIC NOT TESTED: no network namespaces: ", err)
	}
	// Named as test/live knows what is no trace of another plane.
	name := fmt.Sprintf("planetest-%dx%d", os.Getpid(), instances.Add(1))
	t.Cleanup(func() {
		if err := Remove(name); err != nil {
			t.Error(err)
		}
	})
	if err := Ensure(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

// machineNS is the namespace that the test runs in.
func machineNS(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// greeter answers every connection with a word.
func greeter(l net.Listener, word string) {
	for c, err := l.Accept(); err == nil; c, err = l.Accept() {
		_, _ = io.WriteString(c, word)
		_ = c.Close()
	}
}

func TestEnsureAndRemove(t *testing.T) {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	name := newNetwork(t)
	if err := Ensure(t.Context(), name); err != nil {
		t.Errorf("second Ensure: %v", err)
	}
	if !Exists(name) {
		t.Error("not there")
	}
	out, err := exec.Command("nsenter", "--net="+Path(name), "cat", "/proc/sys/net/ipv4/ip_forward").Output()
	if err == nil && strings.TrimSpace(string(out)) != "1" {
		t.Errorf("forwarding is %s", out)
	}
	for range 2 {
		if err := Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if Exists(name) {
		t.Error("still there")
	}
	if after, _ := os.ReadFile("/proc/self/mountinfo"); string(after) != string(mounts) {
		t.Errorf("mounts changed from\n%s\nto\n%s", mounts, after)
	}
}

// TestRemoveLeavesTheDirectory: another instance that holds it as its lock is about to
// pin its namespace there.
func TestRemoveLeavesTheDirectory(t *testing.T) {
	if os.Getuid() != 0 {
		rights.Skip(t, "a machine without another network takes mounts of its own, as root")
	}
	err := OnOwnThread(func() error {
		// A machine on which no other network is pinned.
		if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("none", "/run", "tmpfs", 0, "")); err != nil {
			return err
		}
		unlock, err := lockNetnsDir(t.Context())
		if err != nil {
			return err
		}
		defer unlock()
		if err := Remove("planetest-last"); err != nil {
			return err
		}
		return os.WriteFile(Path("planetest-other"), nil, 0o444)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestRemoveAfterIPNetns: somebody's first `ip netns add` makes the directory a mount point with
// copies of all that is pinned in it.
func TestRemoveAfterIPNetns(t *testing.T) {
	if os.Getuid() != 0 {
		rights.Skip(t, "a machine without another network takes mounts of its own, as root")
	}
	const alone = "SLIPWAY_TEST_ALONE_IN_MOUNTS"
	if os.Getenv(alone) == "" {
		child := exec.CommandContext(t.Context(), "unshare", "--mount", os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), alone+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Mount("none", "/run", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	const name = "planetest-covered"
	if err := Ensure(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "ip", "netns", "add", "planetest-foreign").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := Remove(name); err != nil {
		t.Error(err)
	}
}

func TestEnsureRecovers(t *testing.T) {
	name := newNetwork(t)
	// What a crash between its two steps, or a restart of the machine, leaves: a plain file.
	if err := Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(netnsDir, 0o755), os.WriteFile(Path(name), nil, 0o444)); err != nil {
		t.Fatal(err)
	}
	if Exists(name) {
		t.Error("a plain file passes for a namespace")
	}
	if err := Ensure(t.Context(), name); err != nil || !Exists(name) {
		t.Errorf("Ensure: %v", err)
	}
}

func TestEnsureRefusesForeignNamespaces(t *testing.T) {
	name := newNetwork(t)
	h, err := handleAt(Path(name))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	br, err := h.LinkByName(Bridge)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.LinkSetDown(br); err != nil {
		t.Fatal(err)
	}
	if err := h.LinkSetName(br, "other"); err != nil {
		t.Fatal(err)
	}
	if err := Ensure(t.Context(), name); !errors.Is(err, ErrForeign) {
		t.Errorf("got %v", err)
	}
}

func TestSocketsCrossTheBorder(t *testing.T) {
	name := newNetwork(t)
	ns, err := os.Open(Path(name))
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	inside, err := ListenIn(t.Context(), ns, "tcp", Gateway.String()+":6443")
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	go greeter(inside, "network")
	if l, err := net.Listen("tcp", Gateway.String()+":0"); err == nil {
		_ = l.Close()
		t.Error("the machine itself has the address of the gateway")
	}
	c, err := Dialer(name)(t.Context(), "tcp", inside.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(c); string(got) != "network" {
		t.Errorf("got %q", got)
	}
	// A forwarder on the machine's loopback, as `slipway serve` has it.
	outside, err := ListenIn(t.Context(), machineNS(t), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &Forwarder{Listener: outside, Dial: func(ctx context.Context) (net.Conn, error) {
		return DialContext(ctx, name, "tcp", inside.Addr().String())
	}}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Serve(ctx) }()
	if got, err := io.ReadAll(dial(t, outside.Addr().String())); err != nil || string(got) != "network" {
		t.Errorf("got %q, %v", got, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, address := range []string{"localhost:80", "10.88.0.1", ""} {
		if _, err := DialContext(t.Context(), name, "tcp", address); err == nil {
			t.Errorf("dialled %q", address)
		}
		if _, err := ListenIn(t.Context(), ns, "tcp", address); err == nil {
			t.Errorf("listened on %q", address)
		}
	}
}

// TestEnterAndExec runs itself three times: this test, stage 1 in the machine's
// namespace, and stage 2 which stage 1 turns into.
func TestEnterAndExec(t *testing.T) {
	self := []string{"/proc/self/exe", "-test.run=^TestEnterAndExec$", "-test.count=1"}
	switch os.Getenv("SLIPWAY_TEST_STAGE") {
	case "1":
		l := listen(t)
		f, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("ADDRESS " + l.Addr().String())
		t.Fatal(EnterAndExec(os.Getenv("SLIPWAY_TEST_NETWORK"), self, []string{"SLIPWAY_TEST_STAGE=2", envInherited + "=stale"}, map[string]*os.File{"api": f}))
	case "2":
		files, err := Inherited()
		if err != nil {
			t.Fatal(err)
		}
		old, err := net.FileListener(files["api"])
		if err != nil {
			t.Fatal(err)
		}
		later, err := ListenIn(t.Context(), files[MachineNetNS], "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		link, _ := os.Readlink("/proc/self/ns/net")
		fmt.Println("LATER " + later.Addr().String())
		go greeter(later, "later")
		greeter(old, "stage 2 in "+link)
		return
	}
	name := newNetwork(t)
	cmd := exec.Command(self[0], self[1:]...)
	cmd.Env = append(os.Environ(), "SLIPWAY_TEST_STAGE=1", "SLIPWAY_TEST_NETWORK="+name)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var address, later string
	if n, err := fmt.Fscanf(out, "ADDRESS %s\nLATER %s\n", &address, &later); err != nil {
		t.Fatalf("read %d addresses: %v", n, err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(Path(name), &st); err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(dial(t, address)); string(got) != fmt.Sprintf("stage 2 in net:[%d]", st.Ino) {
		t.Errorf("the inherited listener says %q, want namespace %d", got, st.Ino)
	}
	if got, _ := io.ReadAll(dial(t, later)); string(got) != "later" {
		t.Errorf("the listener opened later says %q", got)
	}
}

func TestInheritedWithoutEnter(t *testing.T) {
	if files, err := Inherited(); err != nil || files != nil {
		t.Errorf("got %v, %v", files, err)
	}
	t.Setenv(envInherited, "nonsense")
	if _, err := Inherited(); err == nil {
		t.Error("nonsense was accepted")
	}
}

func TestEnterAndExecFails(t *testing.T) {
	if err := EnterAndExec("no-such-network", []string{"/bin/true"}, nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := EnterAndExec(newNetwork(t), []string{"/no/such/program"}, nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestAttachValidates(t *testing.T) {
	for _, ip := range []netip.Addr{Gateway, netip.MustParseAddr("192.168.1.1"), {}} {
		if err := AttachHost("x", Link{Host: "h", PID: 1, IP: ip}); err == nil {
			t.Errorf("attached %s", ip)
		}
	}
}

func TestStateOfAbsentLinks(t *testing.T) {
	if s, err := StateOf("no-such-network", "host-1"); err != nil || s != LinkAbsent {
		t.Errorf("without a network: %s, %v", s, err)
	}
	if s, err := StateOf(newNetwork(t), "host-1"); err != nil || s != LinkAbsent {
		t.Errorf("without a link: %s, %v", s, err)
	}
}

func TestPortName(t *testing.T) {
	long := "worker-in-the-far-rack-"
	a, b := portName(long+"1"), portName(long+"2")
	if portName("host-1") != "h-host-1" || len(a) > 15 || a == b {
		t.Errorf("%s, %s", a, b)
	}
}

func TestValidateName(t *testing.T) {
	for name, ok := range map[string]bool{"slipway": true, "a-1": true, "": false, "..": false, "A": false, "-x": false, "1a": false, strings.Repeat("a", 31): true, strings.Repeat("a", 32): false} {
		if (ValidateName(name) == nil) != ok {
			t.Errorf("%q: %v", name, !ok)
		}
	}
}

// TestEnsureWhileLinksComeAndGo reproduces an interrupted dump: the kernel marks a
// list of links that changed while it was read, which netlink v1.3.1 returns as
// ErrDumpInterrupted (link_linux.go, LinkList). Hosts are booted while the network
// is ensured, so this happens in a normal `slipway up`.
func TestEnsureWhileLinksComeAndGo(t *testing.T) {
	name := newNetwork(t)
	h, err := handleAt(Path(name))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for n := range 200 { // more than fit into one message, so that a list takes several reads
		attrs := netlink.NewLinkAttrs()
		attrs.Name = fmt.Sprintf("many-%d", n)
		if err := h.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
			t.Fatal(err)
		}
	}
	stop, churned := make(chan struct{}), make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				churned <- nil
				return
			default:
			}
			attrs := netlink.NewLinkAttrs()
			attrs.Name = fmt.Sprintf("churn-%d", n%8)
			dummy := &netlink.Bridge{LinkAttrs: attrs}
			if err := errors.Join(h.LinkAdd(dummy), h.LinkDel(dummy)); err != nil {
				churned <- err
				return
			}
		}
	}()
	for range 300 {
		if err := Ensure(t.Context(), name); err != nil {
			t.Errorf("Ensure: %v", err)
			break
		}
	}
	close(stop)
	if err := <-churned; err != nil {
		t.Fatal(err)
	}
}
