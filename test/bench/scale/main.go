// Command scale measures what docs/performance.md promises of large pools and
// prints the table: it starts a plane with `slipway serve`, simulated hosts
// (test/simagent) that run the real agent, and a workload cluster of a real
// kube-apiserver and etcd, then grows the fleet pool by pool. Upstream's
// controllers are the real ones, as the plane runs them. Before that it measures
// upstream's in-memory provider on such a plane, so that both have the machine at the
// same hour. It exits with 1 when a figure misses its target, and should have the
// machine to itself.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// settings are the flags.
type settings struct {
	bin       string
	pools     sizes
	bootstrap time.Duration
	settle    time.Duration
	timeout   time.Duration
	profiles  string
	// peer says whether upstream's provider is measured, with peerMachines, or as many
	// as the first pool has when that is 0.
	peer         bool
	peerMachines int
	// part is which measurement this process takes, on the plane of which inside is the
	// state directory and planePID the process, in its network namespace. Without a part
	// it starts planes.
	part     string
	inside   string
	planePID int
	// peerResult is the file that takes the figures of upstream's provider.
	peerResult string
}

// Parts of the benchmark, each on a plane of its own.
const (
	partPeer  = "peer"
	partPools = "pools"
)

func main() {
	s := settings{pools: sizes{1000, 1500, 2500}}
	flag.StringVar(&s.bin, "bin", "bin", "directory of the built binaries")
	flag.Var(&s.pools, "pools", "sizes of the pools, made one after the other; may be empty")
	flag.DurationVar(&s.bootstrap, "bootstrap", 2*time.Second, "how long the bootstrap of a simulated host takes")
	flag.DurationVar(&s.settle, "settle", 30*time.Second, "how long the use at rest is measured, after as long a rest")
	flag.DurationVar(&s.timeout, "timeout", 30*time.Minute, "how long the hosts of one pool may take to enroll, and then the pool")
	flag.StringVar(&s.profiles, "profiles", "", "directory for CPU and heap profiles of the plane; none by default")
	flag.BoolVar(&s.peer, "peer", true, "measure upstream's in-memory provider, too, on a plane of its own")
	flag.IntVar(&s.peerMachines, "peer-machines", 0, "machines of upstream's provider; as many as the first pool has by default")
	flag.StringVar(&s.part, "part", "", "for the command's own use")
	flag.StringVar(&s.inside, "inside", "", "for the command's own use")
	flag.StringVar(&s.peerResult, "peer-result", "", "for the command's own use")
	flag.IntVar(&s.planePID, "plane-pid", 0, "for the command's own use")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	run := map[string]func(context.Context, settings) error{"": outside, partPeer: measurePeer, partPools: measurePools}[s.part]
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}
