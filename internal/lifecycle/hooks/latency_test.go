package hooks_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// The target of docs/lifecycle.md: 50 calls per second, all but one of a hundred
// answered within 20 ms.
const (
	callsPerSecond = 50
	wantP99        = 20 * time.Millisecond
)

// BenchmarkHooks calls two replicas at a fixed pace, whatever they take, for 50
// clusters with two policies each. Half of the runs are done, so that half of the
// calls pass.
func BenchmarkHooks(b *testing.B) {
	namespace := env.Namespace(b)
	replicas := []*replica{startReplica(b, namespace), startReplica(b, namespace)}
	for _, name := range []string{"p1", "p2"} {
		newPolicy(b, namespace, name, func(s *lifecyclev1.LifecyclePolicySpec) {
			s.MatchCondition = `cluster.spec.topology.classRef.name == "slipway"`
		}, lifecyclev1.BeforeClusterCreate)
	}
	clusters := make([]*clusterv1.Cluster, 50)
	for i := range clusters {
		clusters[i] = newCluster(b, namespace, fmt.Sprintf("c%d", i), nil)
		poll.Until(b, "runs are there", func() error { return held(beforeCreate(b.Context(), replicas[i%2], *clusters[i])) })
	}
	list := runs(b, namespace)
	for i := range list {
		if i%4 < 2 {
			end(b, &list[i])
		}
	}
	took := make([]time.Duration, b.N)
	var wg sync.WaitGroup
	ticker := time.NewTicker(time.Second / callsPerSecond)
	defer ticker.Stop()
	b.ResetTimer()
	for i := range b.N {
		<-ticker.C
		wg.Go(func() {
			start := time.Now()
			if _, err := beforeCreate(b.Context(), replicas[i%2], *clusters[i%len(clusters)]); err != nil {
				b.Error(err)
			}
			took[i] = time.Since(start)
		})
	}
	wg.Wait()
	b.StopTimer()
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(p99.Microseconds())/1000, "p99-ms")
	if len(took) >= 100 && p99 > wantP99 {
		b.Errorf("p99 is %s, want at most %s; p50 %s, p90 %s, longest %s", p99, wantP99, took[len(took)/2], took[len(took)*9/10], took[len(took)-1])
	}
}
