package registration

import (
	"context"

	"github.com/slipway-dev/slipway/plane/internal/component"
)

// Component registers an extension that is served by somebody else in this process, and
// keeps that up until it is stopped.
type Component struct {
	component.Task
	name string
	opts Options
}

// NewComponent returns a Component that has not been started.
func NewComponent(name string, opts Options) *Component { return &Component{name: name, opts: opts} }

var _ component.Mortal = (*Component)(nil)

// Name implements component.Component.
func (c *Component) Name() string { return c.name + " extension" }

// Init implements component.Component.
func (c *Component) Init(context.Context) error { return nil }

// Start implements component.Component.
func (c *Component) Start(ctx context.Context) error {
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
func (c *Component) Ready(context.Context) error { return nil }
