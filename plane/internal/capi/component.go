package capi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-api/feature"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/slipway-dev/slipway/plane/internal/component"
)

// Options configure Managers. All fields but FeatureGates and Providers are required.
type Options struct {
	// FeatureGates of Cluster API to set ("Name=true,Other=false") beside those that a
	// plane turns on; see CheckFeatureGates.
	FeatureGates string

	// RESTConfig returns the client configuration of an identity returned by
	// Clients, by its name.
	RESTConfig func(client string) *rest.Config

	// WebhookHost and WebhookPort are the address of the webhook server.
	WebhookHost string
	WebhookPort int

	// WebhookCertDir holds tls.crt and tls.key, which are reloaded on change.
	WebhookCertDir string

	// DialExtension, when set, connects to runtime extensions. It has to refuse
	// addresses that none may have; see sdk/client.RefuseLinkLocal.
	DialExtension func(ctx context.Context, network, address string) (net.Conn, error)

	// Providers run beside the upstream ones.
	Providers []Provider
}

// Managers are all managers and the webhook server.
type Managers struct {
	component.Task
	opts   Options
	all    []managed
	server webhook.Server
	mgrs   []ctrl.Manager // one for each of all

	mu     sync.Mutex
	synced map[string]bool
}

// New returns Managers that have not been started.
func New(opts Options) *Managers {
	return &Managers{opts: opts, all: managers(opts.Providers), synced: map[string]bool{}}
}

// Component is the managers as a part of the plane.
func (c *Managers) Component() component.Component {
	return component.Component{Name: "cluster-api", Init: c.Init, Start: c.Start, Ready: c.Ready, Run: c}
}

// Init sets the feature gates, which upstream keeps in a package variable.
func (c *Managers) Init(context.Context) error {
	return setGates(feature.MutableGates, c.opts.FeatureGates)
}

// Start builds all managers, then runs them. No controller runs before all
// webhooks are registered.
func (c *Managers) Start(ctx context.Context) error {
	// Setup functions keep their context for background work of controllers.
	setupCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	setupCtx = ctrl.LoggerInto(setupCtx, klog.Background())
	c.server = webhook.NewServer(webhook.Options{
		Host: c.opts.WebhookHost, Port: c.opts.WebhookPort, CertDir: c.opts.WebhookCertDir,
	})
	if err := c.build(setupCtx); err != nil {
		cancel()
		return err
	}
	c.Go(func(ctx context.Context) error {
		defer cancel()
		return c.run(ctx)
	})
	return nil
}

// build makes the managers side by side: each first asks the API server for its
// resources.
func (c *Managers) build(ctx context.Context) error {
	all := c.all
	common, err := newShared(c.opts.RESTConfig(all[0].client.Name), c.opts.RESTConfig(ExtensionCaller.Name), c.opts.DialExtension)
	if err != nil {
		return fmt.Errorf("runtime extensions: %w", err)
	}
	c.mgrs = make([]ctrl.Manager, len(all))
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, m := range all {
		hooks := newMount(c.server, m.info.Label())
		wg.Go(func() {
			var err error
			c.mgrs[i], err = m.build(ctx, c.opts.RESTConfig(m.client.Name), hooks, common)
			if err != nil {
				errs[i] = fmt.Errorf("provider %s: %w", m.info.Label(), err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// run returns when ctx ended or any of what it runs did; the rest is stopped.
func (c *Managers) run(ctx context.Context) error {
	runCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The webhook server outlives the managers, whose last writes call it.
	hookCtx, stopHooks := context.WithCancel(context.WithoutCancel(ctx))
	defer stopHooks()

	all := c.all
	errs := make([]error, len(all)+1)
	var wg, hooks sync.WaitGroup
	hooks.Go(func() {
		defer cancel()
		if err := c.server.Start(hookCtx); err != nil {
			errs[len(all)] = fmt.Errorf("webhook server: %w", err)
		}
	})
	for i, mgr := range c.mgrs {
		wg.Go(func() {
			defer cancel()
			if err := mgr.Start(runCtx); err != nil {
				errs[i] = fmt.Errorf("provider %s: %w", all[i].info.Label(), err)
			}
		})
		go c.noteSync(runCtx, all[i].info.Label(), mgr)
	}
	wg.Wait()
	stopHooks()
	hooks.Wait()
	if ctx.Err() != nil {
		// Asked to stop: reconciles cut off are no failure.
		return nil
	}
	return errors.Join(errs...)
}

func (c *Managers) noteSync(ctx context.Context, label string, mgr ctrl.Manager) {
	select {
	case <-mgr.Elected():
	case <-ctx.Done():
		return
	}
	if mgr.GetCache().WaitForCacheSync(ctx) {
		c.mu.Lock()
		c.synced[label] = true
		c.mu.Unlock()
	}
}

// Ready waits for the webhook server and for the caches of all managers.
func (c *Managers) Ready(context.Context) error {
	if err := c.server.StartedChecker()(nil); err != nil {
		return errors.New("waiting for the webhook server")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.all {
		if label := m.info.Label(); !c.synced[label] {
			return fmt.Errorf("waiting for provider %s to fill its caches", label)
		}
	}
	return nil
}
