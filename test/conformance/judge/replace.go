package judge

import (
	"context"
	"fmt"
	"slices"
)

// Replace stops the manager of a subject and starts it again, as after an upgrade: with
// the manifests that are there now, and webhooks that call it.
func (p *Plane) Replace(ctx context.Context, s Subject) error {
	for i, process := range p.processes {
		if process.name == s.Name {
			process.stop()
			p.processes = slices.Delete(p.processes, i, i+1)
			break
		}
	}
	webhooks, err := p.install(ctx, s)
	if err != nil {
		return err
	}
	process, address, err := p.startManager(ctx, s, webhooks)
	if err != nil {
		return fmt.Errorf("start %s again: %w", s.Name, err)
	}
	return process.awaitReady(ctx, address)
}
