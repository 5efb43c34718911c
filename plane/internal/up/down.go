package up

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/plane/internal/progress"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// Down stops the plane and the hosts of an instance and removes its network and
// cgroups. With purge its state goes too; without, the next `slipway up` goes on
// where this one stopped. The command's lock must be held.
func Down(ctx context.Context, inst *instance.Instance, hosts *localhost.Manager, purge bool, tree *progress.Tree) error {
	if err := stop(ctx, inst, hosts, purge, tree); err != nil || !purge {
		return err
	}
	if err := inst.Remove(); err != nil {
		return fmt.Errorf("remove the state: %w", err)
	}
	return nil
}

func stop(ctx context.Context, inst *instance.Instance, hosts *localhost.Manager, purge bool, tree *progress.Tree) error {
	var (
		wg       sync.WaitGroup
		planeErr error
	)
	plane := tree.Step("plane")
	plane.Waitf("stopping")
	wg.Go(func() {
		if planeErr = statedir.Stop(ctx, inst.Dir); planeErr != nil {
			plane.Fail()
			return
		}
		plane.Donef("stopped")
	})
	if !inst.Owns() {
		// What runs under the name is another plane's; nothing of this one does.
		wg.Wait()
		return planeErr
	}
	step := tree.Step("hosts")
	step.Waitf("switching them off")
	err := switchOff(ctx, hosts)
	wg.Wait()
	if planeErr != nil {
		step.Fail()
		planeErr = fmt.Errorf("plane: %w", planeErr)
		if err != nil {
			err = fmt.Errorf("hosts: %w", err)
		}
		return errors.Join(planeErr, err)
	}
	if err == nil {
		// The network goes last: the plane's process lives in it.
		err = hosts.DestroyAll(ctx, purge)
	}
	if err == nil {
		err = inst.Disown()
	}
	if err != nil {
		step.Fail()
		return fmt.Errorf("hosts: %w", err)
	}
	step.Donef("off")
	return nil
}

// switchOff cuts the power of all hosts at once. Their clusters go down with
// them, so there is nothing to be gained from asking each one first.
func switchOff(ctx context.Context, hosts *localhost.Manager) error {
	all, err := hosts.List(ctx)
	if err != nil {
		return err
	}
	return ofEach(all, func(name string) error { return hosts.PowerOff(ctx, name, false) })
}

// ofEach does something with each host, all at the same time, and returns the errors of all.
func ofEach(hosts []localhost.Host, do func(name string) error) error {
	errs := make([]error, len(hosts))
	var all sync.WaitGroup
	for i := range hosts {
		all.Go(func() {
			if err := do(hosts[i].Name); err != nil {
				errs[i] = fmt.Errorf("%s: %w", hosts[i].Name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
