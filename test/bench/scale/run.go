package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/test/bench/procstat"
	"github.com/slipway-dev/slipway/test/simagent"
)

// stage is what was measured of one pool and of the fleet after it. What does not
// apply to upstream's provider has no value in its stage.
type stage struct {
	// Provider is who provides the machines, by its name in Used.
	Provider    string
	Size, Fleet int
	Enrolled    time.Duration
	Took        map[string]time.Duration
	Used        reading
	// Beside is the CPU time of a provider that runs beside the plane.
	Beside time.Duration

	idle *idle
}

// idle is the use at rest, of the plane and of a slipway-manager of its own
// beside it.
type idle struct {
	planeRSS, managerRSS uint64
	planeCPU, managerCPU float64
	writes               reading
}

// startTimeout is for what does not depend on the number of hosts.
const startTimeout = 5 * time.Minute

// measurePools runs in the network namespace of the plane.
func measurePools(ctx context.Context, s settings) (err error) {
	upstreams, err := readPeer(s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	w, err := newWorld(ctx, s)
	if err != nil {
		cancel()
		return err
	}
	defer func() {
		cancel()
		w.fleet.Wait()
		err = errors.Join(err, w.stop())
	}()
	w.view.follow(ctx, w.client, &infrav1.HostList{}, &infrav1.HostMachineList{}, &clusterv1.MachineList{})
	m := newMeter(s, agents, func() (map[string]int, error) { return w.fleet.Requests.Counts(), nil })
	if err := w.enroll(ctx, "control-plane", 1); err != nil {
		return err
	}
	if _, err := w.view.await(ctx, map[string]int{machineRunning: 1}, startTimeout); err != nil {
		return fmt.Errorf("the control plane: %w", err)
	}
	var stages []stage
	for i, size := range s.pools {
		fmt.Fprintf(os.Stderr, "pool %d of %d: %d machines\n", i+1, len(s.pools), size)
		st, err := w.grow(ctx, m, i, size)
		if err != nil {
			// What was measured until then took long enough to be shown.
			return errors.Join(fmt.Errorf("pool of %d: %w", size, err), printTable(os.Stdout, upstreams, stages))
		}
		stages = append(stages, st)
		printWrites(os.Stderr, st)
		if err := printTable(os.Stderr, upstreams, stages); err != nil {
			fmt.Fprintln(os.Stderr, "so far", err)
		}
	}
	return printTable(os.Stdout, upstreams, stages)
}

// enroll makes hosts, starts their agents and waits until they can be claimed.
func (w *world) enroll(ctx context.Context, prefix string, n int) error {
	before := w.view.count(hostAvailable)
	var group errgroup.Group
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error {
			name := fmt.Sprintf("%s-%04d", prefix, i)
			if err := w.createHost(ctx, name); err != nil {
				return err
			}
			return w.fleet.Start(ctx, name)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if n == 1 {
		// Its Machine may take it at once.
		return nil
	}
	_, err := w.view.await(ctx, map[string]int{hostAvailable: before + n}, w.timeout)
	return err
}

// createHost tries again, as an agent would.
func (w *world) createHost(ctx context.Context, name string) error {
	for {
		err := w.client.Create(ctx, simagent.Enrolled(namespace, name))
		if err == nil || apierrors.IsAlreadyExists(err) {
			return nil
		}
		if sleep(ctx, time.Second) != nil {
			return err
		}
	}
}

func (w *world) grow(ctx context.Context, m *meter, index, size int) (stage, error) {
	name := fmt.Sprintf("pool-%d", index+1)
	st := stage{Provider: provider, Size: size}
	begin := time.Now()
	if err := w.enroll(ctx, name, size); err != nil {
		return st, err
	}
	st.Enrolled = time.Since(begin)
	// Nothing of the enrollment may still be under way.
	if err := sleep(ctx, 10*time.Second); err != nil {
		return st, err
	}
	before, err := m.read()
	if err != nil {
		return st, err
	}
	machines := w.view.count(machineRunning)
	wanted := map[string]int{}
	for _, milestone := range []string{machineClaimed, machineProvisioned, machineExists, machineRunning} {
		wanted[milestone] = machines + size
	}
	if err := w.createPool(ctx, name, size); err != nil {
		return st, err
	}
	stopProfiles := m.profileWhile(w.profiles, name)
	st.Took, err = w.view.await(ctx, wanted, w.timeout)
	stopProfiles()
	if err != nil {
		return st, err
	}
	after, err := m.read()
	if err != nil {
		return st, err
	}
	st.Used, st.Fleet = after.since(before), machines+size
	rest, err := w.atRest(ctx, m, name)
	st.idle = &rest
	return st, err
}

// atRest leaves everything alone, then measures.
func (w *world) atRest(ctx context.Context, m *meter, name string) (idle, error) {
	var r idle
	// It caches the same objects as the plane's own and finds nothing to do, which is how
	// memory and CPU of the provider alone can be told from those of the plane.
	manager, err := w.newManager("slipway-manager", "--diagnostics-address", "0", "--health-addr", "0")
	if err != nil {
		return r, err
	}
	defer manager.stop()
	if err := manager.start(); err != nil {
		return r, err
	}
	if err := w.awaitRest(ctx, m); err != nil {
		return r, err
	}
	if err := manager.alive(); err != nil {
		return r, err
	}
	before, err := m.read()
	if err != nil {
		return r, err
	}
	managerBefore, err := procstat.CPUTime(manager.pid())
	if err != nil {
		return r, err
	}
	profiled := make(chan struct{})
	go func() {
		defer close(profiled)
		m.profile(w.profiles, name+"-rest.cpu", fmt.Sprintf("profile?seconds=%d", int(w.settle.Seconds())))
	}()
	if err := sleep(ctx, w.settle); err != nil {
		return r, err
	}
	<-profiled
	after, err := m.read()
	if err != nil {
		return r, err
	}
	managerAfter, err := procstat.CPUTime(manager.pid())
	if err != nil {
		return r, err
	}
	elapsed := after.At.Sub(before.At).Seconds()
	r.writes = after.since(before)
	r.planeCPU, r.managerCPU = r.writes.CPU.Seconds()/elapsed, (managerAfter-managerBefore).Seconds()/elapsed
	if r.managerRSS, err = procstat.ResidentMemory(manager.pid()); err != nil {
		return r, err
	}
	r.planeRSS, err = procstat.ResidentMemory(m.pid)
	m.profile(w.profiles, name+"-rest.heap", "heap")
	return r, err
}

// restTries bounds how long the plane may take to come to rest: upstream's core goes
// on writing after the last Machine runs.
const restTries = 6

// awaitRest returns when nobody but agents wrote for as long as the use at rest is
// measured then.
func (w *world) awaitRest(ctx context.Context, m *meter) error {
	for range restTries {
		before, err := m.read()
		if err != nil {
			return err
		}
		if err := sleep(ctx, w.settle); err != nil {
			return err
		}
		after, err := m.read()
		if err != nil {
			return err
		}
		if spent := after.since(before); spent.total("") == spent.total(agents) {
			break
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
