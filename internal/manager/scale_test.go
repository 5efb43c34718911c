package manager_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/simagent"
)

// noNodes is a workload cluster that nobody looks at.
type noNodes struct{}

func (noNodes) Join(context.Context, simagent.Node) error { return nil }

// writes leaves reads out.
func writes(counts map[string]int) map[string]int {
	maps.DeleteFunc(counts, func(request string, _ int) bool {
		return strings.HasPrefix(request, http.MethodGet) || strings.HasPrefix(request, "WATCH")
	})
	return counts
}

func since(before, after map[string]int) map[string]int {
	more := map[string]int{}
	for request, n := range after {
		if n -= before[request]; n > 0 {
			more[request] = n
		}
	}
	return more
}

func sum(counts map[string]int) int {
	n := 0
	for _, count := range counts {
		n += count
	}
	return n
}

// What a pool costs is what the provider can be scaled by: at most eight writes for
// each machine, and none at all once the machines run, heartbeats or not. The agents
// are the real ones.
func TestWritesPerMachine(t *testing.T) {
	level.Deep(t)
	testenv.Skip(t)
	const size, perMachine = 50, 8
	namespace := env.Namespace(t)
	testenv.NewCluster(t, env.Client, namespace)
	var requests simagent.Requests
	config := rest.CopyConfig(env.Config)
	config.Wrap(requests.Count)
	options := optionsFor(namespace)
	// However slow the machine is that runs the test.
	options.StatusDelay = time.Hour
	startManagerWith(t, config, options)
	fleet := startFleet(t, namespace, size)
	poll.Until(t, "all hosts can be claimed", wantPhases(t, namespace, 0, size))
	poll.Until(t, "nothing is left of the enrollment", quiet(&requests))

	before := writes(requests.Counts())
	machinePool, pool := testenv.NewMachinePool(t, env.Client, namespace, "workers", size)
	play(t, nil, []*clusterv1.MachinePool{machinePool})
	poll.Until(t, "all hosts run", wantPhases(t, namespace, size, 0))
	poll.Until(t, "the pool is ready", poolIs(t, pool, size))
	poll.Until(t, "nothing is left to write", quiet(&requests))
	after := writes(requests.Counts())
	spent := since(before, after)
	// How often the pool is written depends on how many of its machines change at once.
	maps.DeleteFunc(spent, func(request string, _ int) bool { return strings.Contains(request, " hostmachinepools") })
	t.Logf("%.1f writes for each machine: %s", float64(sum(spent))/size, list(spent))
	if sum(spent) > size*perMachine {
		t.Errorf("%d writes for %d machines; want at most %d for each", sum(spent), size, perMachine)
	}

	// At rest agents renew Leases and do nothing else.
	atRest := fleet.Requests.Counts()
	poll.Until(t, "hundreds of heartbeats", func() error {
		if n := fleet.Requests.Counts()["PUT leases"] - atRest["PUT leases"]; n < 10*size {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	if more := since(after, writes(requests.Counts())); sum(more) > 0 {
		t.Errorf("the manager wrote at rest: %s", list(more))
	}
	if now := fleet.Requests.Counts(); now["PATCH hosts/status"] != atRest["PATCH hosts/status"] {
		t.Errorf("heartbeats wrote to Hosts: %s", list(now))
	}
}

func startFleet(t *testing.T, namespace string, size int) *simagent.Fleet {
	t.Helper()
	config := rest.CopyConfig(env.Config)
	fleet, err := simagent.New(simagent.Options{
		Config: config, Namespace: namespace, Nodes: noNodes{}, Version: testenv.Version, HeartbeatInterval: 500 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); fleet.Wait() })
	for i := range size {
		name := fmt.Sprintf("host-%02d", i)
		if err := env.Client.Create(ctx, simagent.Enrolled(namespace, name)); err != nil {
			t.Fatal(err)
		}
		if err := fleet.Start(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	return fleet
}

// quietFor is twice what throttle.Queue lets an object rest at most between two
// reconciles: what the last event of a pool leads to is written by then.
const quietFor = 10 * time.Second

// quiet fails until there was no write between two looks, quietFor apart.
func quiet(requests *simagent.Requests) func() error {
	return func() error {
		before := sum(writes(requests.Counts()))
		time.Sleep(quietFor)
		if n := sum(writes(requests.Counts())) - before; n > 0 {
			return fmt.Errorf("%d writes within %s", n, quietFor)
		}
		return nil
	}
}

func list(counts map[string]int) string {
	lines := make([]string, 0, len(counts))
	for _, request := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, fmt.Sprintf("%s %d", request, counts[request]))
	}
	return strings.Join(lines, ", ")
}
