package e2e

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/live"
)

// The network of a host that hangs on the machine and not on the plane's bridge.
const (
	rackGateway  = "203.0.113.1"
	rackAddress  = "203.0.113.2"
	rackEndpoint = "203.0.113.200"
)

// TestClusterOnAnotherMachine has the control plane of a cluster on a host that only the
// machine of the plane reaches, never the plane's own network: the controllers of the plane
// and `slipway kubeconfig` get to its API server all the same. The environment names a
// proxy that is not there, as of a machine that goes to the internet by one.
func TestClusterOnAnotherMachine(t *testing.T) {
	level.Deep(t)
	p := newPlane(t, 1)
	l := newLAN(t, p)
	run := func(args ...string) string {
		t.Helper()
		i := p.command(args...).in(l.plane)
		i.Env = append(i.Env, "HTTPS_PROXY=http://192.0.2.1:3128")
		if err := i.Run(); err != nil {
			t.Fatalf("slipway %s: %v\n%s", strings.Join(args, " "), err, i.stderr.String())
		}
		return i.stdout.String()
	}
	run(append(oneHost, "--listen", net.JoinHostPort(planeAddress, strconv.Itoa(p.Port)))...)
	kubectl := func(cluster []string, args ...string) string {
		t.Helper()
		kubeconfig := strings.TrimSpace(run(append([]string{"kubeconfig"}, cluster...)...))
		out, err := within(l.plane, exec.Command(filepath.Join(p.bin, "kubectl"), append(args, "--kubeconfig", kubeconfig)...)).CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	l.replug(t, p)
	p.waitFor("report of the host by its new address", func() bool {
		return strings.Contains(kubectl(nil, "get", "host", "host-1", "-o", "yaml"), rackAddress)
	})

	kubectl(nil, "apply", "-f", "../../templates/local/clusterclass.yaml")
	run("cluster", "create", "other", "--endpoint", rackEndpoint, "--pool", "pool=0", "--wait", "--timeout", poll.Limit().String())
	if nodes := kubectl([]string{"other"}, "get", "node", "-o", "wide"); !strings.Contains(nodes, rackAddress) {
		t.Errorf("nodes of the cluster: %s", nodes)
	}
	if c, err := live.DialFrom(p.Name)(t.Context(), "tcp", net.JoinHostPort(rackEndpoint, "6443")); err == nil {
		_ = c.Close()
		t.Error("the plane's network has a way to the host: the test proves nothing")
	}
	run("cluster", "delete", "other", "--yes", "--wait")
}

// replug pulls the cable of the only local host out of the plane's network and plugs it into
// the machine's, as if the host were another machine, and tells its agent where the plane is.
func (l lan) replug(t *testing.T, p *plane) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	agents := p.agents()
	if len(agents) != 1 {
		t.Fatalf("agents of one host: %v", agents)
	}
	pid := agents[0]
	hostNS, err := netns.GetFromPid(pid)
	must(err)
	defer hostNS.Close()
	host, err := netlink.NewHandleAt(hostNS)
	must(err)
	defer host.Close()
	cable, err := host.LinkByName("eth0")
	must(err)
	must(host.LinkDel(cable))

	machineNS, err := netns.GetFromName(l.plane)
	must(err)
	defer machineNS.Close()
	machine, err := netlink.NewHandleAt(machineNS)
	must(err)
	defer machine.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "rack"
	must(machine.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(hostNS)}))
	for _, end := range []struct {
		*netlink.Handle
		name, address string
	}{{machine, "rack", rackGateway}, {host, "eth0", rackAddress}} {
		link, err := end.LinkByName(end.name)
		must(err)
		address, err := netlink.ParseAddr(end.address + "/24")
		must(err)
		must(end.AddrAdd(link, address))
		must(end.LinkSetUp(link))
	}
	must(host.RouteAdd(&netlink.Route{Gw: net.ParseIP(rackGateway)}))

	server := net.JoinHostPort(planeAddress, strconv.Itoa(p.Port))
	script := fmt.Sprintf("grep -rlF %[1]s /etc/slipway /var/lib/slipway-agent | xargs sed -i s/%[1]s/%[2]s/", gateway+":6443", server)
	inside := exec.Command("nsenter", "--mount", "--target", strconv.Itoa(pid), "--", "sh", "-c", script)
	if out, err := inside.CombinedOutput(); err != nil {
		t.Fatalf("tell the agent where the plane is: %v\n%s", err, out)
	}
	must(syscall.Kill(pid, syscall.SIGKILL))
}
