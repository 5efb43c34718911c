package provider

import (
	"context"
	"fmt"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/simagent"
)

// version of Kubernetes that all hosts offer.
const version = "v1.36.3"

// simulatedHost is a Host with the real agent, whose bootstrap makes a Node in the
// workload cluster instead of starting a kubelet. The agent has no more rights than
// the Host controller gives it.
type simulatedHost struct {
	key      client.ObjectKey
	executor *executor
}

// addHost makes a Host and runs its agent until the end of the test.
func (s *Suite) addHost(t *testing.T, namespace, name string, mutate ...func(*infrav1.Host)) *simulatedHost {
	t.Helper()
	// The Nodes of all Clusters are in one workload cluster.
	h := simagent.Enrolled(namespace, namespace+"-"+name)
	for _, m := range mutate {
		m(h)
	}
	if err := s.Client.Create(t.Context(), h); err != nil {
		t.Fatalf("create Host %s: %v", h.Name, err)
	}
	simulated := &simulatedHost{key: client.ObjectKeyFromObject(h), executor: &executor{}}
	fleet, err := simagent.New(simagent.Options{
		Config: s.Config, Namespace: namespace, Nodes: simagent.Kubelets{Client: s.workloadClient}, Version: version, MoreVersions: s.MoreVersions,
		Wrap: func(_ string, inner operation.Executor) operation.Executor {
			simulated.executor.Executor = inner
			return simulated.executor
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var waiting sync.WaitGroup
	waiting.Go(func() {
		// Without its rights the agent would wait out its first backoff.
		binding := &rbacv1.RoleBinding{}
		_ = poll.Wait(func() error {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // nobody needs the agent any more
			}
			return s.Client.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: host.RoleName(h.Name)}, binding)
		})
		if err := fleet.Start(ctx, h.Name); err != nil {
			t.Errorf("start the agent of %s: %v", h.Name, err)
		}
	})
	t.Cleanup(func() {
		cancel()
		waiting.Wait()
		fleet.Wait()
	})
	return simulated
}

// addHosts makes hosts named h1, h2 and so on.
func (s *Suite) addHosts(t *testing.T, namespace string, count int) []*simulatedHost {
	t.Helper()
	var all []*simulatedHost
	for i := range count {
		all = append(all, s.addHost(t, namespace, fmt.Sprintf("h%d", i+1)))
	}
	return all
}

// executor counts the resets of the executor inside, and may hold them up.
type executor struct {
	operation.Executor

	mu     sync.Mutex
	held   chan struct{}
	resets int
}

// holdResets keeps resets from ending until the function it returns is called.
func (e *executor) holdResets() (release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = make(chan struct{})
	return sync.OnceFunc(func() { close(e.held) })
}

// Reset implements operation.Executor.
func (e *executor) Reset(ctx context.Context, progress operation.Progress) error {
	e.mu.Lock()
	held := e.held
	e.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := e.Executor.Reset(ctx, progress)
	if err == nil {
		e.mu.Lock()
		e.resets++
		e.mu.Unlock()
	}
	return err
}

// finishedResets returns how many resets came to their end.
func (e *executor) finishedResets() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.resets
}
