package reset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
)

// logDirectories hold what pods wrote. A reset of policy Full empties them.
var logDirectories = []string{"/var/log/pods", "/var/log/containers"}

// images removes the container images that are not in the baseline; containerd then
// drops their content by itself.
func (c Cleaner) images(ctx context.Context, baseline *journal.Baseline) error {
	images, err := c.newImages(ctx, baseline)
	if err != nil || len(images) == 0 {
		return err
	}
	_, err = c.ctr(ctx, append([]string{"images", "delete", "--sync"}, images...)...)
	return err
}

// newImages are those that came since the bootstrap began; none without a baseline,
// which says what was the host's own.
func (c Cleaner) newImages(ctx context.Context, baseline *journal.Baseline) ([]string, error) {
	if baseline == nil {
		return nil, nil
	}
	images, err := c.listImages(ctx)
	return slices.DeleteFunc(images, func(name string) bool { return slices.Contains(baseline.Images, name) }), err
}

func (c Cleaner) listImages(ctx context.Context) ([]string, error) {
	if !c.Runner.Has("ctr") {
		return nil, nil
	}
	out, err := c.ctr(ctx, "images", "list", "--quiet")
	if err != nil {
		return nil, fmt.Errorf("list the images of Kubernetes: %w", err)
	}
	return strings.Fields(string(out)), nil
}

func (c Cleaner) logs() error {
	errs := make([]error, 0, len(logDirectories))
	for _, dir := range logDirectories {
		errs = append(errs, removeContents(c.Root.Path(dir)))
	}
	return errors.Join(errs...)
}

// leftByWorkloads checks what a reset of policy Full promises besides. Once it has
// proved that, the baseline is gone, and nothing can add to it.
func (c Cleaner) leftByWorkloads(ctx context.Context, state journal.State) ([]string, error) {
	if !state.FullReset() || state.Baseline == nil {
		return nil, nil
	}
	images, err := c.newImages(ctx, state.Baseline)
	if err != nil {
		return nil, err
	}
	var left []string
	if len(images) > 0 {
		left = append(left, fmt.Sprintf("%d container images, for example %s", len(images), images[0]))
	}
	files, err := firstFiles(c.Root, logDirectories)
	return append(left, files...), err
}
