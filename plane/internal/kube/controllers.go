package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/plane/internal/component"
	"github.com/slipway-dev/slipway/plane/internal/pki"
)

// ControllerOptions configure Controllers. All fields are required.
type ControllerOptions struct {
	// RESTConfig returns the client configuration of a service account of
	// kube-system, by its name.
	RESTConfig func(account string) *rest.Config

	// SigningCertFile and SigningKeyFile sign certificate requests.
	SigningCertFile, SigningKeyFile string
}

// ControllerClients returns the identities the controllers act as. Each file name is the
// account's name.
func ControllerClients() []pki.Client {
	clients := make([]pki.Client, 0, len(controllers))
	for _, c := range controllers {
		clients = append(clients, pki.Client{
			Name:   c.account,
			User:   "system:serviceaccount:kube-system:" + c.account,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"},
		})
	}
	return clients
}

// Controllers is the component of all controllers.
type Controllers struct {
	component.Task
	opts ControllerOptions
	envs []*environment
}

// NewControllers returns Controllers that have not been started.
func NewControllers(opts ControllerOptions) *Controllers { return &Controllers{opts: opts} }

// Component is the controllers as a part of the plane.
func (c *Controllers) Component() component.Component {
	return component.Component{Name: "kube-controllers", Start: c.Start, Ready: c.Ready, Run: c}
}

// Start makes the controllers and runs them.
func (c *Controllers) Start(ctx context.Context) error {
	// Some constructors start goroutines with the context they are given.
	setupCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	runs, err := c.setup(setupCtx)
	if err != nil {
		cancel()
		return err
	}
	c.Go(func(ctx context.Context) error {
		defer cancel()
		return c.run(ctx, runs)
	})
	return nil
}

func (c *Controllers) setup(ctx context.Context) ([]func(context.Context), error) {
	runs := make([]func(context.Context), 0, len(controllers))
	for _, ctl := range controllers {
		env, err := newEnvironment(c.opts, c.opts.RESTConfig(ctl.account))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", ctl.account, err)
		}
		run, err := ctl.setup(ctx, env)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", ctl.account, err)
		}
		c.envs = append(c.envs, env)
		runs = append(runs, run)
	}
	return runs, nil
}

func (c *Controllers) run(ctx context.Context, runs []func(context.Context)) error {
	var wg sync.WaitGroup
	for i, run := range runs {
		c.envs[i].start(ctx)
		wg.Go(func() { run(ctx) })
	}
	wg.Wait()
	for _, env := range c.envs {
		env.informers.Shutdown()
		env.metaInfs.Shutdown()
	}
	if ctx.Err() == nil {
		return errors.New("all controllers returned")
	}
	return nil
}

// Ready waits for the informers, without which no controller acts, and for the
// aggregated ClusterRoles, without which Cluster API's managers may do nothing.
func (c *Controllers) Ready(context.Context) error {
	done := make(chan struct{})
	close(done)
	for i, env := range c.envs {
		select {
		case <-env.started:
		default:
			return errors.New("waiting for the controllers to start")
		}
		for kind, synced := range env.informers.WaitForCacheSync(done) {
			if !synced {
				return fmt.Errorf("waiting for %s to list %s", controllers[i].account, kind)
			}
		}
		if controllers[i].ready == nil {
			continue
		}
		if err := controllers[i].ready(env); err != nil {
			return err
		}
	}
	return nil
}
