package effects_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects"
	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
	"github.com/slipway-dev/slipway/internal/agent/link/backoff"
	"github.com/slipway-dev/slipway/internal/agent/vip"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/test/fakehost"
)

var endpoint = netip.MustParseAddr("10.0.0.200")

// cluster is a control plane, its hosts, the network between them, and the manager, by the
// clock of a synctest bubble.
type cluster struct {
	t      *testing.T
	random *rand.Rand

	mu sync.Mutex
	// pace says how long kubeadm and the commands of users take.
	pace  *rand.Rand
	nodes []*peer
	// members are those of etcd.
	members []*member
	lease   *coordinationv1.Lease
	writes  int
	// initialized is what the status of the Cluster says.
	initialized bool
	// joined counts the hosts that joined.
	joined int
	// second is true once a control plane was made beside another one.
	second bool
	// back is when the manager is there again.
	back time.Time
}

// member of etcd. One whose host was reset while etcd had no majority stays, without data.
type member struct {
	node *peer
	data bool
}

// peer is a host with its agent. Its fields are guarded by the mutex of the cluster.
type peer struct {
	vip.Server
	*cluster
	name string
	host *fakehost.Host
	path string
	spec infrav1.HostSpec
	// data is the bootstrap data of the claim.
	data    string
	journal *journal.Journal
	loop    *core.Loop
	// stop ends the agent; nil while none runs.
	stop func()
	// off is a host without power, cut one that reaches no other, down an API server that
	// does not answer.
	off, cut, down bool
	// blind is a host that does not reach the management cluster, deaf one whose watch is behind.
	blind, deaf bool
	// stored is the Host in the management cluster.
	stored *infrav1.Host
	member *member
	// expires is when the kernel removes the address.
	expires time.Time
}

func newCluster(t *testing.T, seed uint64) *cluster {
	c := &cluster{t: t, random: rand.New(rand.NewPCG(seed, 1)), pace: rand.New(rand.NewPCG(seed, 2))}
	for i := range 3 {
		n := &peer{cluster: c, name: fmt.Sprintf("host-%d", i+1), host: fakehost.New(t), path: filepath.Join(t.TempDir(), "journal")}
		c.nodes = append(c.nodes, n)
	}
	for _, n := range c.nodes {
		n.start()
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			n.kill()
		}
	})
	return c
}

// start starts an agent, which knows its journal and its Host.
func (n *peer) start() {
	if n.stop != nil || n.off {
		return
	}
	j, err := journal.Open(n.path)
	if err != nil {
		n.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	keeper := &vip.Keeper{
		Holder: vip.Holder{Network: n, Log: log}, Server: n, Now: time.Now, Log: log,
		Candidate: func() vip.Candidate { return effects.Candidate(n.name, j.State()) },
	}
	executor := *n.host.Executor
	executor.VIP, executor.Cleaner.VIP = keeper, keeper
	loop := core.NewLoop()
	loop.Journal, loop.BootID, loop.Namespace, loop.Log = j, "boot", "ns", log
	loop.Executor, loop.API = &kubeadm{&executor, n}, n
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { keeper.Run(ctx) })
	wg.Go(func() { loop.Run(ctx) })
	n.journal, n.loop = j, loop
	n.stop = func() {
		cancel()
		wg.Wait()
		_ = j.Close()
	}
	n.observe()
}

// kill ends the agent. The kernel keeps the address for its lifetime.
func (n *peer) kill() {
	if n.stop != nil {
		n.stop()
		n.stop = nil
	}
}

// observe stores the Host, and shows it to the agent if that sees it.
func (n *peer) observe() {
	n.mu.Lock()
	n.stored = &infrav1.Host{ObjectMeta: metav1.ObjectMeta{UID: types.UID(n.name)}, Spec: *n.spec.DeepCopy()}
	sees := !n.blind && !n.deaf
	n.mu.Unlock()
	if n.stop != nil && sees {
		n.loop.Observe(n.stored)
	}
}

// bootstrapData has commands of users before and after kubeadm.
func (c *cluster) bootstrapData(initializes bool) string {
	words := "true || kubeadm join"
	if initializes {
		words = "true || kubeadm init"
	}
	users := func() string { return usersCommands[c.random.IntN(len(usersCommands))] }
	return fmt.Sprintf("#cloud-config\nruncmd:\n- %q\n- %q\n- %q\n", users(), words, users())
}

// errBlind is what a host gets that does not reach the management cluster.
var errBlind = errors.New("no route to host")

// GetSecret implements core.API.
func (n *peer) GetSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.blind {
		return nil, errBlind
	}
	return secrets{n.data}.GetSecret(ctx, namespace, name)
}

// GetHost implements core.API.
func (n *peer) GetHost(context.Context, string, string) (*infrav1.Host, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.blind {
		return nil, errBlind
	}
	return n.stored.DeepCopy(), nil
}

// claim claims the host, as the manager does.
func (n *peer) claim() {
	n.spec.ClaimGeneration++
	id := fmt.Sprintf("%s-%d", n.name, n.spec.ClaimGeneration)
	n.spec.Claim = &infrav1.HostClaim{MachineName: id, ClusterName: "c", ClaimID: id}
	n.observe()
}

// request requests the bootstrap of a host that is claimed.
func (n *peer) request(initializes bool) {
	n.spec.Desired = &infrav1.HostDesired{
		Phase: infrav1.HostDesiredBootstrapped, OperationID: "bootstrap-" + n.spec.Claim.ClaimID, BootstrapSecretName: "secret",
		VirtualIP: endpoint.String(), InitializesControlPlane: &initializes,
	}
	data := n.bootstrapData(initializes)
	n.mu.Lock()
	n.data = data
	n.mu.Unlock()
	n.observe()
}

// mayInit says whether the operation of the host lets it make the control plane.
func (n *peer) mayInit() bool {
	return n.spec.Desired != nil && ptr.Deref(n.spec.Desired.InitializesControlPlane, false) && !n.done()
}

// revoke ends that.
func (n *peer) revoke() {
	revoked := *n.spec.Desired
	revoked.InitializesControlPlane = ptr.To(false)
	n.spec.Desired = &revoked
	n.observe()
}

// state is what the agent reports; the zero State while it is away.
func (n *peer) state() journal.State {
	if n.stop == nil || n.journal == nil || n.blind {
		return journal.State{}
	}
	return n.journal.State()
}

// done says whether the operation of the host has succeeded.
func (n *peer) done() bool {
	s := n.state()
	return n.spec.Desired != nil && s.Operation != nil && s.Operation.ID == n.spec.Desired.OperationID && s.Operation.State == infrav1.OperationSucceeded
}

// manage does what the manager does; see internal/controller/hostmachine. It may end after each
// write, and be away for a while.
func (c *cluster) manage() {
	for c.write() {
		if c.random.IntN(6) == 0 {
			c.back = time.Now().Add(time.Duration(c.random.IntN(90)) * time.Second)
		}
		if before(c.back) {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		c.initialized = c.initialized || n.api() == nil
	}
}

// write makes the next change of the manager. It returns false when there is none.
func (c *cluster) write() bool {
	if before(c.back) {
		return false
	}
	claimed := 0
	for _, n := range c.nodes {
		if n.spec.Claim != nil {
			claimed++
		}
	}
	for _, n := range c.nodes {
		switch desired := n.spec.Desired; {
		case n.spec.Claim == nil && (c.initialized || claimed == 0):
			n.claim()
			return true
		case n.spec.Claim == nil:
		case desired == nil && !c.initialized && claimed == 1:
			n.request(true)
			return true
		case desired == nil && c.initialized:
			// Nobody joins while another host may make a control plane.
			for _, other := range c.nodes {
				if other.mayInit() {
					other.revoke()
					return true
				}
			}
			n.request(false)
			return true
		case desired != nil && desired.Phase == infrav1.HostDesiredReset && n.done():
			n.spec.Claim, n.spec.Desired = nil, nil
			n.observe()
			return true
		}
	}
	return false
}

// run lets time pass. It looks at each tenth of a second who has the address.
func (c *cluster) run(d time.Duration) {
	c.t.Helper()
	for range d / (100 * time.Millisecond) {
		c.manage()
		time.Sleep(100 * time.Millisecond)
		c.mu.Lock()
		var held []string
		for _, n := range c.nodes {
			if n.has() {
				held = append(held, n.name)
			}
		}
		second := c.second
		c.mu.Unlock()
		if len(held) > 1 {
			c.t.Fatalf("%s hold the address at the same time", held)
		}
		if second {
			c.t.Fatal("a second control plane was made")
		}
	}
}

// has says whether the kernel has the address. It is up to a second late to remove it.
func (n *peer) has() bool { return !n.off && before(n.expires) }

// before says whether a time is yet to come.
func before(t time.Time) bool { return time.Now().Before(t) }

func (n *peer) reaches(o *peer) bool { return n == o || !n.off && !o.off && !n.cut && !o.cut }

// api is the API server of the host.
func (n *peer) api() error {
	switch {
	case n.member == nil:
		return vip.ErrNoControlPlane
	case n.off || n.down:
		return errors.New("connection refused")
	}
	alive := 0
	for _, m := range n.members {
		if m.data && n.reaches(m.node) {
			alive++
		}
	}
	if alive <= len(n.members)/2 {
		return errors.New("etcd has no leader")
	}
	return nil
}

// Ready implements vip.Server.
func (n *peer) Ready(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.api()
}

// Lease implements vip.Server.
func (n *peer) Lease(context.Context) (*coordinationv1.Lease, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.api(); err != nil {
		return nil, err
	}
	if n.lease == nil {
		n.store(&coordinationv1.Lease{})
	}
	return n.lease.DeepCopy(), nil
}

// UpdateLease implements vip.Server.
func (n *peer) UpdateLease(_ context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.api(); err != nil {
		return nil, err
	}
	if n.lease == nil || lease.ResourceVersion != n.lease.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "lease", errors.New("the object has been modified"))
	}
	n.store(lease)
	return n.lease.DeepCopy(), nil
}

func (c *cluster) store(lease *coordinationv1.Lease) {
	c.writes++
	c.lease = lease.DeepCopy()
	c.lease.ResourceVersion = strconv.Itoa(c.writes)
}

// Addresses implements vip.Network.
func (n *peer) Addresses() ([]network.Address, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := []network.Address{{Link: "eth0", Prefix: netip.MustParsePrefix("10.0.0.5/24")}}
	if n.has() {
		all = append(all, network.Address{Link: "eth0", Prefix: netip.PrefixFrom(endpoint, endpoint.BitLen())})
	}
	return all, nil
}

// DefaultLink implements vip.Network.
func (n *peer) DefaultLink(bool) (string, error) { return "eth0", nil }

// Add implements vip.Network.
func (n *peer) Add(_ string, _ netip.Prefix, lifetime time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.expires = time.Now().Add(lifetime.Truncate(time.Second) + time.Second)
	return nil
}

// Remove implements vip.Network.
func (n *peer) Remove(string, netip.Prefix) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.expires = time.Time{}
	return nil
}

// Announce implements vip.Network.
func (n *peer) Announce(string, netip.Addr) error { return nil }

// MAC implements vip.Network.
func (n *peer) MAC(string) string { return n.name }

// Probe implements vip.Network.
func (n *peer) Probe(string, netip.Addr) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range n.nodes {
		if o != n && o.has() && n.reaches(o) {
			return o.name, nil
		}
	}
	return "", nil
}

// kubeadm is an executor whose kubeadm takes its time and acts on the cluster.
type kubeadm struct {
	operation.Executor
	node *peer
}

// Bootstrap implements operation.Executor.
func (k *kubeadm) Bootstrap(ctx context.Context, requested operation.Bootstrap, progress operation.Progress) error {
	act := k.node.join
	if strings.Contains(string(requested.Data), `- "true || kubeadm init"`) {
		act = k.node.init
	}
	return k.Executor.Bootstrap(ctx, requested, &commands{progress, func() error { return act(ctx) }})
}

// Reset implements operation.Executor.
func (k *kubeadm) Reset(ctx context.Context, progress operation.Progress) error {
	k.node.leave()
	return k.Executor.Reset(ctx, progress)
}

// commands does what kubeadm does once the commands have run: while a shell runs, no time
// passes in a bubble.
type commands struct {
	operation.Progress
	run func() error
}

// Begin implements operation.Progress.
func (c *commands) Begin(step string) error {
	if err := c.Progress.Begin(step); err != nil || step != "kubelet unit" {
		return err
	}
	return c.run()
}

func (n *peer) wait(ctx context.Context, longest int) error {
	n.mu.Lock()
	d := time.Duration(n.pace.IntN(longest)) * time.Second
	n.mu.Unlock()
	if !backoff.Sleep(ctx, d) {
		return ctx.Err()
	}
	return nil
}

// init makes a control plane, beside the one that there is. It ends well at the address only.
func (n *peer) init(ctx context.Context) error {
	if err := n.wait(ctx, 40); err != nil {
		return err
	}
	n.mu.Lock()
	n.second = n.second || len(n.members) > 0
	if !n.has() {
		n.mu.Unlock()
		return errors.New("no API server at the address")
	}
	n.member = &member{n, true}
	n.members, n.lease = []*member{n.member}, nil
	n.mu.Unlock()
	// What users run afterwards.
	return n.wait(ctx, 60)
}

// join joins the control plane at the address, unless that leads to the host itself.
func (n *peer) join(ctx context.Context) error {
	for range 20 {
		if err := n.wait(ctx, 10); err != nil {
			return err
		}
		n.mu.Lock()
		for _, o := range n.nodes {
			if o != n && o.has() && !n.has() && n.reaches(o) && o.api() == nil {
				n.joined++
				n.member = &member{n, true}
				n.members = append(n.members, n.member)
				n.mu.Unlock()
				return n.wait(ctx, 20)
			}
		}
		n.mu.Unlock()
	}
	return errors.New("no API server at the address")
}

// leave takes the host out of etcd, if that has a majority.
func (n *peer) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.member == nil {
		return
	}
	majority := n.api() == nil
	n.member.data = false
	if majority {
		n.members = slices.DeleteFunc(n.members, func(m *member) bool { return m == n.member })
	}
	if !slices.ContainsFunc(n.members, func(m *member) bool { return m.data }) {
		n.members = nil
	}
	n.member = nil
}

// fault is one thing that goes wrong, or that is over.
func (c *cluster) fault() {
	n, on := c.nodes[c.random.IntN(len(c.nodes))], c.random.IntN(2) == 0
	c.mu.Lock()
	holder := n
	for _, o := range c.nodes {
		if o.has() {
			holder = o
		}
	}
	c.mu.Unlock()
	switch c.random.IntN(10) {
	case 8:
		// The management cluster is out of reach.
		c.mu.Lock()
		n.blind, n.deaf = true, true
		c.mu.Unlock()
	case 9:
		// It is in reach again; the watch is behind at first.
		c.mu.Lock()
		n.blind, n.deaf = false, on && n.blind
		c.mu.Unlock()
		n.observe()
	case 0:
		n.kill()
		n.start()
	case 1:
		n.kill()
	case 2:
		if n.off != on {
			n.kill()
			c.mu.Lock()
			n.off, n.expires = on, time.Time{}
			c.mu.Unlock()
		}
		n.start()
	case 3:
		// The holder is away while another host joins.
		c.mu.Lock()
		holder.cut = true
		c.mu.Unlock()
		c.run(time.Duration(c.random.IntN(20)) * time.Second)
		c.mu.Lock()
		holder.cut = false
		c.mu.Unlock()
	case 4:
		c.mu.Lock()
		n.cut = on
		c.mu.Unlock()
	case 5:
		c.mu.Lock()
		n.down = on
		c.mu.Unlock()
	case 6:
		if n.spec.Claim != nil && (n.spec.Desired == nil || n.spec.Desired.Phase != infrav1.HostDesiredReset) {
			n.spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredReset, OperationID: "reset-" + n.spec.Claim.ClaimID}
			n.observe()
		}
	case 7:
		// The Cluster was restored without its status.
		c.mu.Lock()
		c.initialized = false
		c.mu.Unlock()
	}
}

// TestNeverTwoHoldersWithUsersCommands bootstraps, resets and replaces the hosts of a control
// plane whose commands have the words of kubeadm, through partitions, power cuts, agents and
// managers that end at any time, agents that do not see what the manager has written, and Clusters
// that lose their status. At no time do two hosts have the
// address, and no second control plane is made.
func TestNeverTwoHoldersWithUsersCommands(t *testing.T) {
	t.Parallel()
	joined := 0
	seeds := uint64(8)
	if level.IsDeep() {
		seeds = 100
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, seed)
			c.run(time.Duration(c.random.IntN(60)) * time.Second)
			for range 40 {
				c.fault()
				c.run(time.Duration(c.random.IntN(15_000)) * time.Millisecond)
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
			joined += c.joined
			for _, n := range c.nodes {
				n.kill()
			}
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if joined == 0 {
		t.Error("no host has joined: nothing is shown")
	}
	t.Logf("%d hosts joined", joined)
}

// Seal implements vip.Server.
func (*peer) Seal(message string) string { return "sealed: " + message }

// Serves implements vip.Server.
func (*peer) Serves(context.Context, uint16) error { return nil }

// Answers implements vip.Server.
func (*peer) Answers(context.Context, netip.AddrPort) error { return nil }
