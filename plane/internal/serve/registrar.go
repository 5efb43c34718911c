package serve

import (
	"context"

	"github.com/slipway-dev/slipway/plane/internal/component"
)

// registrar registers an extension that is served by another component, and keeps that up. It is
// ready at once: Cluster API waits at the hooks until they answer.
func registrar(name string, opts RegistrationOptions) component.Component {
	task := &component.Task{}
	return component.Component{Name: name + " extension", Run: task, Start: func(ctx context.Context) error {
		r, err := Register(ctx, opts)
		if err == nil {
			err = r.Started(ctx)
		}
		if err != nil {
			return err
		}
		task.Go(func(ctx context.Context) error {
			r.Keep(ctx)
			return nil
		})
		return nil
	}}
}
