package down

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/plane/internal/progress"
	"github.com/slipway-dev/slipway/plane/internal/serve"
)

// Run stops the plane and the hosts of an instance and removes its network and
// cgroups. With purge its state goes too; without, the next `slipway up` goes on
// where this one stopped.
func Run(ctx context.Context, inst *instance.Instance, hosts *localhost.Manager, purge bool, tree *progress.Tree) error {
	var (
		wg       sync.WaitGroup
		planeErr error
	)
	wg.Go(func() {
		step := tree.Step("plane")
		step.Wait("stopping")
		if planeErr = serve.Stop(ctx, inst.Dir); planeErr != nil {
			step.Fail(planeErr)
			return
		}
		step.Done("stopped")
	})
	step := tree.Step("hosts")
	step.Wait("switching them off")
	err := switchOff(ctx, hosts)
	wg.Wait()
	if planeErr != nil {
		return planeErr
	}
	if err == nil {
		// The network goes last: the plane's process lives in it.
		err = hosts.DestroyAll(ctx, purge)
	}
	if err != nil {
		step.Fail(err)
		return err
	}
	step.Done("off")
	if !purge {
		return nil
	}
	if err := os.RemoveAll(inst.Dir); err != nil {
		return fmt.Errorf("remove the state: %w", err)
	}
	return nil
}

// switchOff cuts the power of all hosts at once. Their clusters go down with
// them, so there is nothing to be gained from asking each one first.
func switchOff(ctx context.Context, hosts *localhost.Manager) error {
	all, err := hosts.List(ctx)
	if err != nil {
		return err
	}
	errs := make(chan error, len(all))
	for _, host := range all {
		go func() { errs <- hosts.PowerOff(ctx, host.Name, false) }()
	}
	for range all {
		if e := <-errs; e != nil {
			err = e
		}
	}
	return err
}
