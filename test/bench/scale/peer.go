package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/test/bench/procstat"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// What `make bench-peer` leaves in the directory of binaries: upstream's provider, built
// from its module without a change, and the manifests of that module.
var (
	peerProgram    = filepath.Join("peer", "manager")
	peerComponents = filepath.Join("peer", "components.yaml")
)

// The ports of the provider. Its workload cluster is on 20000 of POD_IP.
const (
	peerMetrics = "127.0.0.1:19081"
	peerHealth  = "127.0.0.1:19440"
)

// peerFlags leave the provider its defaults, which let it reconcile 50 DevMachines at a
// time, five times what the plane gives upstream's other controllers. Only its limit of
// 100 requests a second is lifted, to that of those controllers: it is the first thing
// that upstream's guide to tuning has one look at, and 1,000 machines would wait for it.
var peerFlags = []string{
	"--kube-api-qps", "1000", "--kube-api-burst", "2000", "--health-addr", peerHealth,
	"--diagnostics-address", peerMetrics, "--insecure-diagnostics",
}

// peer is upstream's in-memory provider on a plane.
type peer struct {
	settings
	client  client.WithWatch
	manager *separateManager
	view    *view
}

func (s settings) peerBuilt() error {
	for _, file := range []string{peerProgram, peerComponents} {
		if _, err := os.Stat(filepath.Join(s.bin, file)); err != nil {
			return fmt.Errorf("upstream's provider is not built: run `make bench-peer`, or measure without it by -peer=false: %w", err)
		}
	}
	return nil
}

// measurePeer runs in the network namespace of the plane.
func measurePeer(ctx context.Context, s settings) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &peer{settings: s, view: newView()}
	var err error
	if _, p.client, err = s.connect(); err != nil {
		return err
	}
	if p.manager, err = s.newManager(peerProgram, peerFlags...); err != nil {
		return err
	}
	defer p.manager.stop()
	if err := p.install(ctx); err != nil {
		return err
	}
	go func() {
		// Without it no Machine would ever run.
		<-p.manager.exited
		cancel()
	}()
	p.view.follow(ctx, p.client, &clusterv1.MachineList{})
	st, err := p.grow(ctx)
	if err != nil {
		return fmt.Errorf("upstream's provider: %w", errors.Join(err, p.manager.alive()))
	}
	printWrites(os.Stderr, st)
	if err := printTable(os.Stderr, &st, nil); err != nil {
		return err
	}
	data, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return os.WriteFile(s.peerResult, data, 0o600)
}

// readPeer returns what measurePeer found; nil when it did not run.
func readPeer(s settings) (*stage, error) {
	if s.peerResult == "" {
		return nil, nil
	}
	data, err := os.ReadFile(s.peerResult)
	if err != nil {
		return nil, err
	}
	st := &stage{}
	return st, json.Unmarshal(data, st)
}

// install creates the provider's manifests, with webhooks that call its manager, and
// starts that.
func (p *peer) install(ctx context.Context) error {
	manifests, err := os.ReadFile(filepath.Join(p.bin, peerComponents))
	if err != nil {
		return err
	}
	objects, err := judge.Decode(manifests)
	if err != nil {
		return err
	}
	if err := judge.Install(ctx, p.client, objects, webhookPort, p.manager.certificate); err != nil {
		return err
	}
	p.manager.cmd.Env = append(p.manager.cmd.Env, "POD_IP=127.0.0.1")
	if err := p.manager.start(); err != nil {
		return err
	}
	return p.await(ctx, "its manager to be ready", func(context.Context) (bool, error) {
		response, err := http.Get("http://" + peerHealth + "/readyz")
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
}

//go:embed peer-cluster.yaml
var peerCluster string

// startCluster returns when workers would not have to wait for the control plane.
func (p *peer) startCluster(ctx context.Context) error {
	if err := p.create(ctx, peerCluster); err != nil {
		return err
	}
	if _, err := p.view.await(ctx, map[string]int{machineRunning: 1}, startTimeout); err != nil {
		return err
	}
	return p.await(ctx, "the Cluster to be available", func(ctx context.Context) (bool, error) {
		cluster := &clusterv1.Cluster{}
		err := p.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "peer"}, cluster)
		return conditions.IsTrue(cluster, clusterv1.ClusterAvailableCondition), err
	})
}

//go:embed peer-deployment.yaml
var peerDeployment string

// grow makes the cluster and measures its MachineDeployment, from its creation on.
func (p *peer) grow(ctx context.Context) (stage, error) {
	st := stage{Provider: peerProvider, Size: p.peerMachines, Fleet: p.peerMachines + 1}
	if err := p.startCluster(ctx); err != nil {
		return st, fmt.Errorf("its control plane: %w", err)
	}
	// Nothing of that may still be under way.
	if err := sleep(ctx, 10*time.Second); err != nil {
		return st, err
	}
	m := newMeter(p.settings, peerProvider, peerRequests)
	before, err := m.read()
	if err != nil {
		return st, err
	}
	managerBefore, err := procstat.CPUTime(p.manager.pid())
	if err != nil {
		return st, err
	}
	if err := p.create(ctx, peerDeployment); err != nil {
		return st, err
	}
	stopProfiles := m.profileWhile(p.profiles, partPeer)
	st.Took, err = p.view.await(ctx, map[string]int{machineExists: st.Fleet, machineRunning: st.Fleet}, p.timeout)
	stopProfiles()
	if err != nil {
		return st, err
	}
	after, err := m.read()
	if err != nil {
		return st, err
	}
	managerAfter, err := procstat.CPUTime(p.manager.pid())
	st.Used, st.Beside = after.since(before), managerAfter-managerBefore
	return st, err
}

// create makes the objects of a manifest.
func (p *peer) create(ctx context.Context, manifest string) error {
	values := map[string]string{"VERSION": version, "MACHINES": strconv.Itoa(p.peerMachines), "BOOTSTRAP": p.bootstrap.String()}
	objects, err := judge.Decode([]byte(os.Expand(manifest, func(name string) string { return values[name] })))
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := p.client.Create(ctx, o); err != nil {
			return fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// await polls for what comes before the measurement.
func (p *peer) await(ctx context.Context, what string, condition wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		if err := p.manager.alive(); err != nil {
			return false, err
		}
		return condition(ctx)
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}
