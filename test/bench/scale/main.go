// Command scale measures what docs/performance.md promises of large pools and
// prints the table: it starts a plane with `slipway serve`, simulated hosts
// (test/simagent) that run the real agent, and a workload cluster of a real
// kube-apiserver and etcd, then grows the fleet pool by pool. Upstream's
// controllers are the real ones, as the plane runs them. It exits with 1 when a
// figure misses its target, and should have the machine to itself.
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
	// inside is the state directory of the plane in whose network namespace this
	// process runs; planePID is its process.
	inside   string
	planePID int
}

func main() {
	s := settings{pools: sizes{1000, 1500, 2500}}
	flag.StringVar(&s.bin, "bin", "bin", "directory of the built binaries")
	flag.Var(&s.pools, "pools", "sizes of the pools, made one after the other")
	flag.DurationVar(&s.bootstrap, "bootstrap", 2*time.Second, "how long the bootstrap of a simulated host takes")
	flag.DurationVar(&s.settle, "settle", 30*time.Second, "how long the use at rest is measured, after as long a rest")
	flag.DurationVar(&s.timeout, "timeout", 30*time.Minute, "how long the hosts of one pool may take to enrol, and then the pool")
	flag.StringVar(&s.profiles, "profiles", "", "directory for CPU and heap profiles of the plane; none by default")
	flag.StringVar(&s.inside, "inside", "", "for the command's own use")
	flag.IntVar(&s.planePID, "plane-pid", 0, "for the command's own use")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	run := outside
	if s.inside != "" {
		run = inside
	}
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}
