package serve

import (
	"context"

	"github.com/slipway-dev/slipway/plane/internal/component"
)

// Registrar registers an extension that is served by somebody else in this process, and
// keeps that up until it is stopped.
type Registrar struct {
	component.Task
	name string
	opts RegistrationOptions
}

// NewRegistrar returns a Registrar that has not been started.
func NewRegistrar(name string, opts RegistrationOptions) *Registrar {
	return &Registrar{name: name, opts: opts}
}

var _ component.Mortal = (*Registrar)(nil)

// Name implements component.Component.
func (c *Registrar) Name() string { return c.name + " extension" }

// Init implements component.Component.
func (c *Registrar) Init(context.Context) error { return nil }

// Start implements component.Component.
func (c *Registrar) Start(ctx context.Context) error {
	r, err := Register(ctx, c.opts)
	if err == nil {
		err = r.Started(ctx)
	}
	if err != nil {
		return err
	}
	c.Go(func(ctx context.Context) error {
		r.Keep(ctx)
		return nil
	})
	return nil
}

// Ready implements component.Component. Cluster API waits at the hooks until they answer.
func (c *Registrar) Ready(context.Context) error { return nil }
