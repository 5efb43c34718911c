package cli

import (
	"context"

	"github.com/slipway-dev/slipway/internal/cli"
	"github.com/slipway-dev/slipway/internal/console"
	"github.com/slipway-dev/slipway/internal/management"
)

// upConsole is the console of `slipway up --ui`, in the process of the command: the plane has
// no part in it. It opens no browser, as `up` is root's and a browser would act as root in
// the session of whoever sits there.
type upConsole struct {
	global *global
	// ended gets what ended the console.
	ended chan error
}

// open serves the console until ctx ends, and returns its address.
func (c *upConsole) open(ctx context.Context) (string, error) {
	cluster, err := management.Find(management.Choice{Plane: c.global.Plane, PlaneGiven: true})
	if err != nil {
		return "", err
	}
	shown, err := cli.ListenConsole(ctx, cluster, console.DefaultAddress, "")
	if err != nil {
		return "", err
	}
	c.ended = make(chan error, 1)
	go func() { c.ended <- shown.Serve(ctx) }()
	return shown.URL(), nil
}
