package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Milestones of an object on its way.
const (
	hostAvailable      = "hosts available"
	machineClaimed     = "HostMachines with a host"
	machineProvisioned = "HostMachines provisioned"
	machineExists      = "Machines"
	machineRunning     = "Machines Running"
)

// view knows how far each object has come, from watches: lists would load the
// plane that is measured.
type view struct {
	mu      sync.Mutex
	reached map[string]map[string]bool
	changed chan struct{}
}

func newView() *view {
	return &view{reached: map[string]map[string]bool{}, changed: make(chan struct{}, 1)}
}

// follow watches some kinds until the context ends.
func (v *view) follow(ctx context.Context, c client.WithWatch, kinds ...client.ObjectList) {
	for _, list := range kinds {
		go func() {
			for ctx.Err() == nil {
				if err := v.watch(ctx, c, list); err != nil && ctx.Err() == nil {
					fmt.Fprintln(os.Stderr, "watch again after:", err)
					time.Sleep(time.Second)
				}
			}
		}()
	}
}

func (v *view) watch(ctx context.Context, c client.WithWatch, list client.ObjectList) error {
	stream, err := c.Watch(ctx, list, client.InNamespace(namespace))
	if err != nil {
		return err
	}
	defer stream.Stop()
	for event := range stream.ResultChan() {
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		v.note(event.Object)
	}
	return nil
}

func (v *view) note(object any) {
	switch o := object.(type) {
	case *infrav1.Host:
		v.mark(hostAvailable, o.Name, o.Status.Phase == infrav1.HostPhaseAvailable)
	case *infrav1.HostMachine:
		v.mark(machineClaimed, o.Name, o.Spec.ProviderID != "")
		v.mark(machineProvisioned, o.Name, ptr.Deref(o.Status.Initialization.Provisioned, false))
	case *clusterv1.Machine:
		v.mark(machineExists, o.Name, true)
		v.mark(machineRunning, o.Name, o.Status.Phase == string(clusterv1.MachinePhaseRunning))
	}
}

func (v *view) mark(milestone, name string, reached bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	names := v.reached[milestone]
	if names == nil {
		names = map[string]bool{}
		v.reached[milestone] = names
	}
	if names[name] == reached {
		return
	}
	if reached {
		names[name] = true
	} else {
		delete(names, name)
	}
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

func (v *view) count(milestone string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.reached[milestone])
}

// await returns how long it took until each milestone was reached by so many
// objects.
func (v *view) await(ctx context.Context, wanted map[string]int, timeout time.Duration) (map[string]time.Duration, error) {
	begin := time.Now()
	deadline := time.After(timeout)
	report := time.NewTicker(10 * time.Second)
	defer report.Stop()
	took := map[string]time.Duration{}
	for {
		for milestone, n := range wanted {
			if _, done := took[milestone]; !done && v.count(milestone) >= n {
				took[milestone] = time.Since(begin)
			}
		}
		if len(took) == len(wanted) {
			return took, nil
		}
		select {
		case <-v.changed:
		case <-report.C:
			fmt.Fprintf(os.Stderr, "%5.0fs  %s\n", time.Since(begin).Seconds(), v.progress(wanted))
		case <-deadline:
			return nil, fmt.Errorf("not there after %s: %s", timeout, v.progress(wanted))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (v *view) progress(wanted map[string]int) string {
	line := ""
	for _, milestone := range []string{hostAvailable, machineClaimed, machineProvisioned, machineExists, machineRunning} {
		if n, ok := wanted[milestone]; ok {
			line += fmt.Sprintf("%d/%d %s  ", v.count(milestone), n, milestone)
		}
	}
	return line
}
