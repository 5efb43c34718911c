package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/effects/reset"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/test/chaos/judge"
)

// leftover is something that a node may leave on its host. The scripts run on the host.
type leftover struct {
	// kind of trace that finds it.
	kind string
	// named is what the message of a host that is quarantined has of it.
	named string
	// leave makes it, there prints something while it is there, remove takes it away as an operator would.
	leave, there, remove string
}

// fileLeft is a leftover that is a file.
func fileLeft(kind, path string) leftover {
	return leftover{kind, path, "mkdir -p $(dirname " + path + "); echo chaos >" + path, "ls -d " + path, "rm -f " + path}
}

// objectLeft is a leftover that a program makes, finds in a list and removes.
func objectLeft(kind, named, leave, list, remove string) leftover {
	return leftover{kind, named, leave, list + " | grep -F '" + named + "'", remove}
}

// cgroups is a directory in which control groups are made, of either version.
const cgroups = "cd $(ls -d /sys/fs/cgroup/pids /sys/fs/cgroup | tail -1); "

// within runs a program in a control group of its own, in the background.
func within(group, program string) string {
	return cgroups + "mkdir -p " + group + "; setsid sh -c 'echo $$ >" + group + "/cgroup.procs; exec " + program + "' </dev/null >/dev/null 2>&1 &"
}

// leftovers are at least one of each kind of trace. None of them gets into the way of a node.
var leftovers = []leftover{
	{"process", "sleep of a pod", within("cri-containerd-chaos", "sleep 86399"), "pgrep -f '^sleep 86399'", "pkill -f '^sleep 86399'"},
	{"port", "listener on port 10257", within("chaos-port", "kubectl proxy --port=10257"), "pgrep -f [p]ort=10257", "pkill -f [p]ort=10257"},
	{"listener", "127.0.0.1:18999", within("chaos-listener", "kubectl proxy --port=18999"), "pgrep -f [p]ort=18999", "pkill -f [p]ort=18999"},
	{
		"container", "in containerd's namespace k8s.io", "ctr -n k8s.io containers create $(ctr -n k8s.io images list -q | grep pause | head -1) chaos-leftover",
		"ctr -n k8s.io containers list -q | grep chaos-leftover", "ctr -n k8s.io containers delete chaos-leftover",
	},
	{"mount", "mount /mnt/chaos", "mkdir -p /mnt/chaos; mount -t tmpfs chaos /mnt/chaos", "grep ' /mnt/chaos ' /proc/mounts", "umount /mnt/chaos"},
	objectLeft("interface", "chaos0", "ip link add chaos0 type bridge", "ip -o link", "ip link del chaos0"),
	objectLeft("qdisc", "ingress of eth0", "tc qdisc add dev eth0 clsact", "tc qdisc show dev eth0 | sed -n 's/.*clsact.*/ingress of eth0/p'", "tc qdisc del dev eth0 clsact"),
	objectLeft("address", "192.0.2.77/32", "ip addr add 192.0.2.77/32 dev lo", "ip -o addr show dev lo", "ip addr del 192.0.2.77/32 dev lo"),
	objectLeft("neighbour", "192.0.2.78", "ip neigh replace 192.0.2.78 lladdr 02:00:00:00:00:78 dev eth0 nud permanent", "ip neigh", "ip neigh del 192.0.2.78 dev eth0"),
	objectLeft("rule", "lookup 4321", "ip rule add pref 4321 from 192.0.2.0/24 lookup 4321", "ip rule", "ip rule del pref 4321"),
	objectLeft("rule", "lookup 4326", "ip -6 rule add pref 4326 from 2001:db8::/64 lookup 4326", "ip -6 rule", "ip -6 rule del pref 4326"),
	objectLeft("route", "192.0.2.128/25", "ip route add blackhole 192.0.2.128/25 proto 80", "ip route", "ip route del blackhole 192.0.2.128/25"),
	objectLeft("route", "2001:db8:1::/64", "ip -6 route add unreachable 2001:db8:1::/64 proto bird", "ip -6 route", "ip -6 route del unreachable 2001:db8:1::/64"),
	objectLeft("nexthop", "id 4321", "ip nexthop add id 4321 blackhole", "ip nexthop", "ip nexthop del id 4321"),
	objectLeft("nftables", "table inet chaos", "nft add table inet chaos; nft add chain inet chaos c", "nft list tables", "nft delete table inet chaos"),
	objectLeft("iptables", "chaos", "iptables-legacy -t raw -N chaos", "iptables-legacy-save", "iptables-legacy -t raw -X chaos"),
	objectLeft("ipset", "chaos", "ipset create chaos hash:net", "ipset list -n", "ipset destroy chaos"),
	objectLeft("xfrm", "192.0.2.0/25", "ip xfrm policy add src 192.0.2.0/25 dst 192.0.2.128/25 dir out priority 4321 action block", "ip xfrm policy",
		"ip xfrm policy delete src 192.0.2.0/25 dst 192.0.2.128/25 dir out"),
	{"cgroup", "chaos-group", cgroups + "mkdir -p chaos-group", "find /sys/fs/cgroup -maxdepth 2 -name chaos-group", cgroups + "rmdir chaos-group"},
	{
		"sysctl", "log_martians", "echo 1 >/proc/sys/net/ipv4/conf/all/log_martians", "grep 1 /proc/sys/net/ipv4/conf/all/log_martians",
		"echo 0 >/proc/sys/net/ipv4/conf/all/log_martians",
	},
	fileLeft("Kubernetes", "/var/lib/cni/chaos/leftover"),
	fileLeft("file", "/etc/cni/net.d/99-chaos.conflist.bak"),
	{"file", "directory /etc/chaos.d", "mkdir /etc/chaos.d; touch /etc/chaos.d/leftover", "ls -d /etc/chaos.d", "rm -r /etc/chaos.d"},
	fileLeft("file", "/run/calico/chaos"),
	fileLeft("file", "/srv/chaos"),
	{"file", "/etc/motd.chaos", "ln -s /nonexistent /etc/motd.chaos", "ls -d /etc/motd.chaos", "rm -f /etc/motd.chaos"},
	// A rollout has the bootstrap write it.
	{"written", "file /etc/chaos", "echo leftover >>/etc/chaos", "grep leftover /etc/chaos", "rm -f /etc/chaos"},
	{
		"program", "kubectl", "cd /usr/local/bin; readlink kubectl >/var/tmp/kubectl.chaos; ln -sfn /nonexistent/chaos chaos; mv -T chaos kubectl", "readlink /usr/local/bin/kubectl | grep chaos",
		"cd /usr/local/bin; ln -sfn $(cat /var/tmp/kubectl.chaos) chaos; mv -T chaos kubectl",
	},
}

// neverLeft are the kinds of traces of which nothing is left, and why.
var neverLeft = map[string]string{
	"virtual IP":  "a second holder of an address is what another invariant is about",
	"swap":        "local hosts share the machine's",
	"module":      "local hosts share the machine's, and may load none",
	"bpf":         "no program of the hosts attaches one",
	"ipvs":        "no program of the hosts makes a service, and kernels without IPVS are common",
	"fou":         "no program of the hosts opens a port for it, and kernels without FoU are common",
	"device":      "local hosts share the machine's",
	"binfmt":      "local hosts share the machine's",
	"device-file": "local hosts have those of the machine",
	"environment": "the systemctl of local hosts has no variables",
	"kexec":       "local hosts share the machine's",
	"service":     "the systemctl of local hosts lists no services",
	"hold":        "local hosts have no list of packages of their own",
	"hostname":    "a renamed host is what tests of a node's identity are about",
	"image":       "goes with policy Full alone",
	"log":         "goes with policy Full alone",
}

// TestEachTraceIsLeft: a kind of trace that a reset knows has a leftover, or a reason why not.
func TestEachTraceIsLeft(t *testing.T) {
	t.Parallel()
	all := reset.Kinds(t.Context())
	for _, kind := range all {
		left := slices.ContainsFunc(leftovers, func(l leftover) bool { return l.kind == kind })
		if left == (neverLeft[kind] != "") {
			t.Errorf("a leftover of kind %q is made: %t; and a reason why not is %q", kind, left, neverLeft[kind])
		}
	}
	for _, l := range leftovers {
		if !slices.Contains(all, l.kind) {
			t.Errorf("no trace is of kind %q", l.kind)
		}
	}
}

// left is a leftover on a host, and the claim under which it was made.
type left struct {
	leftover
	host, claim string
}

func (l left) String() string { return fmt.Sprintf("%s (%s) on %s", l.named, l.kind, l.host) }

// perFault is how many leftovers one fault makes.
const perFault = 3

// leaveSome leaves a few things on a host that runs for a machine. On another one they would be the operator's.
func leaveSome(ctx context.Context, p *plane, s Step) error {
	random := rand.New(rand.NewPCG(uint64(s.Pick), 0))
	var some []leftover
	for _, i := range random.Perm(len(leftovers))[:perFault] {
		some = append(some, leftovers[i])
	}
	return p.leave(ctx, s.Host, some)
}

// leave makes leftovers on a host, as long as it runs for its machine. One that the host has no program for is
// left out.
func (p *plane) leave(ctx context.Context, host string, some []leftover) error {
	claim, err := p.runsFor(ctx, host)
	if err != nil || claim == "" {
		return err
	}
	for _, l := range some {
		it := left{l, host, claim}
		if slices.ContainsFunc(p.left, func(o left) bool { return o.host == host && o.named == l.named }) {
			continue
		}
		if out, err := p.shell(ctx, host, "set -e; "+l.leave); err != nil {
			p.cannot = append(p.cannot, fmt.Sprintf("%s: %s", it, strings.TrimSpace(out)))
			continue
		}
		now, err := p.runsFor(ctx, host)
		if err != nil || now != claim {
			// The reset may have looked already: it is not to find it.
			_, gone := p.shell(ctx, host, l.remove)
			return errors.Join(err, gone)
		}
		p.left = append(p.left, it)
	}
	return nil
}

// runsFor is the claim of the machine that a host runs for; empty when it runs for none, or is to be reset.
func (p *plane) runsFor(ctx context.Context, host string) (string, error) {
	h, err := p.client.Resource(hostResource).Namespace(namespace).Get(ctx, host, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil || field(h, "status", "phase") != string(infrav1.HostPhaseRunning) || field(h, "spec", "desired", "phase") == string(infrav1.HostDesiredReset) {
		return "", err
	}
	return field(h, "spec", "claim", "claimID"), nil
}

func field(o *unstructured.Unstructured, path ...string) string {
	text, _, _ := unstructured.NestedString(o.Object, path...)
	return text
}

// shell runs a script on a host, and returns what it says.
func (p *plane) shell(ctx context.Context, host, script string) (string, error) {
	out, err := p.run(ctx, "host", "shell", host, "--", "sh", "-c", script)
	if err != nil {
		out += err.Error()
	}
	return out, err
}

// sweep judges what was left on hosts whose reset has come to an end since: the host has it no more, or is
// quarantined and names it. Then it takes that away and has the host reset, as an operator does. It returns violations.
func (p *plane) sweep(ctx context.Context) (violations []string, err error) {
	still, taken := p.left[:0:0], map[string]bool{}
	for _, l := range p.left {
		f := p.sweepOne(ctx, l)
		if f.violation != "" {
			violations = append(violations, f.violation)
		}
		if !f.judged {
			still = append(still, l)
		}
		taken[l.host] = taken[l.host] || f.taken
		err = errors.Join(err, f.err)
	}
	p.left = still
	for host, yes := range taken {
		if yes {
			_, failed := p.run(ctx, "host", "reset", host)
			err = errors.Join(err, failed)
		}
	}
	return violations, err
}

// finding is what came of a look at a leftover.
type finding struct {
	judged, taken bool
	violation     string
	err           error
}

func (p *plane) sweepOne(ctx context.Context, l left) finding {
	h, err := p.client.Resource(hostResource).Namespace(namespace).Get(ctx, l.host, metav1.GetOptions{})
	if err != nil {
		return finding{err: client.IgnoreNotFound(err)} // one that is gone is enrolled again
	}
	if h.GetDeletionTimestamp() != nil {
		return finding{} // its message is about the deletion; once it is gone, it is enrolled again
	}
	phase, claim := infrav1.HostPhase(field(h, "status", "phase")), field(h, "spec", "claim", "claimID")
	quarantined := phase == infrav1.HostPhaseQuarantined
	if !quarantined && (claim == l.claim || claim == "" && phase != infrav1.HostPhaseAvailable) {
		return finding{}
	}
	there, err := p.shell(ctx, l.host, l.there+" || true")
	if err != nil {
		return finding{err: err}
	}
	switch message := readyMessage(h); {
	case strings.TrimSpace(there) == "":
		p.gone++
		return finding{judged: true}
	case !quarantined:
		return finding{judged: true, violation: fmt.Sprintf("%s was left, and the host is %s, of claim %q", l, phase, claim)}
	case !strings.Contains(message, l.named) && !p.logNames(ctx, l, message):
		return finding{judged: true, violation: fmt.Sprintf("%s was left, and the host does not name it: %s", l, message)}
	}
	p.named++
	_, err = p.shell(ctx, l.host, l.remove)
	return finding{judged: true, taken: true, err: err}
}

// logNames looks into the agent's log, to which a message points that has no room for all.
func (p *plane) logNames(ctx context.Context, l left, message string) bool {
	if !strings.Contains(message, " more; ") {
		return false
	}
	_, err := p.shell(ctx, l.host, "grep -F 'the reset left something behind' /var/log/slipway-agent.log | tail -1 | grep -qF '"+l.named+"'")
	return err == nil
}

func readyMessage(h *unstructured.Unstructured) string {
	all, _, _ := unstructured.NestedSlice(h.Object, "status", "conditions")
	for _, c := range all {
		if is, ok := c.(map[string]any); ok && is["type"] == clusterv1.ReadyCondition {
			return fmt.Sprint(is["message"])
		}
	}
	return ""
}

// sweep fails the run for what was left and not named.
func (r *run) sweep(ctx context.Context) []string {
	violations, err := r.plane.sweep(ctx)
	for _, v := range violations {
		r.fail(v, judge.Entry{Seen: time.Now()}, nil)
	}
	if err != nil {
		return []string{"what was left on hosts is not judged: " + err.Error()}
	}
	return nil
}

// release ends all workers, so that what was left on their hosts is judged.
func (r *run) release(ctx context.Context) {
	r.plan.State.Pool, r.plan.State.Deployment = 0, 0
	for n, f := range faults[:2] {
		if err := f.apply(ctx, r.plane, Step{Kind: n, Name: f.Name}); err != nil {
			r.fail(err.Error(), judge.Entry{}, nil)
			return
		}
	}
	r.converge(ctx)
	r.notef("leftovers: %d gone with the reset, %d named; %d are on hosts that still have their machine; not made: %v",
		r.plane.gone, r.plane.named, len(r.plane.left), r.plane.cannot)
}

// TestLeftovers leaves one of each on a worker.
func TestLeftovers(t *testing.T) {
	level.Deep(t)
	r := newRun(t, newPlane(t))
	r.start(t.Context())
	r.first(t.Context())
	for _, host := range begin().Hosts {
		h, err := r.plane.client.Resource(hostResource).Namespace(namespace).Get(t.Context(), host, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if of, _, _ := unstructured.NestedBool(h.Object, "spec", "claim", "controlPlane"); of || len(r.plane.left) > 0 {
			continue
		}
		if err := r.plane.leave(t.Context(), host, leftovers); err != nil {
			t.Fatal(err)
		}
	}
	made := len(r.plane.left) + len(r.plane.cannot)
	r.release(t.Context())
	if made != len(leftovers) || len(r.plane.left) > 0 {
		t.Errorf("%d of %d leftovers were made; not judged are %v", made, len(leftovers), r.plane.left)
	}
}
