package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/slipway-dev/slipway/internal/hookdocs"
	"github.com/slipway-dev/slipway/plane/internal/capi"
	"github.com/slipway-dev/slipway/plane/internal/component"
	"github.com/slipway-dev/slipway/plane/internal/etcd"
	"github.com/slipway-dev/slipway/plane/internal/kube"
	"github.com/slipway-dev/slipway/plane/internal/manifests"
	"github.com/slipway-dev/slipway/plane/internal/pki"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// Run runs a plane until ctx ends, then stops it. It returns nil when it was
// stopped that way; a *statedir.LockedError when another process serves the state
// directory; otherwise what component.Group.Run returns. It tunes the
// garbage collector and sets the logger of controller-runtime for the process, which
// can run a plane only once: upstream keeps names of informers for its life.
func Run(ctx context.Context, opts Options) error {
	if err := opts.complete(); err != nil {
		return err
	}
	if err := os.MkdirAll(opts.StateDir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	lock, err := acquire(opts)
	if err != nil {
		return err
	}
	ctrl.SetLogger(klog.Background())

	status := newStatus(opts)
	stages := assemble(opts)
	hooks, err := hookdocs.Handler()
	if err != nil {
		return errors.Join(err, lock.Release())
	}
	metrics.Registry.MustRegister(backupAge(opts.StateDir))
	health := newHealth(statedir.Socket(opts.StateDir), stages, hooks)
	first := []component.Component{health.component()}
	if !collectorGiven() {
		first = append(first, newGCTuner().component())
	}
	group := component.Group{
		Stages: append([][]component.Component{first}, stages...),
		OnEvent: func(e component.Event) {
			status.note(e)
			if opts.Progress != nil {
				opts.Progress(e)
			}
		},
		OnReady: func(context.Context) error {
			health.up.Store(true)
			if err := status.ready(); err != nil || opts.Ready == nil {
				return err
			}
			return opts.Ready()
		},
	}
	err = group.Run(ctx)
	return errors.Join(err, status.stopped(err), lock.Release())
}

// acquire returns the lock of the state directory, which names this process from then on.
func acquire(opts Options) (*statedir.Lock, error) {
	if opts.Lock == nil {
		lock, err := statedir.Acquire(opts.StateDir)
		if err != nil {
			return nil, err
		}
		// Those of another plane here, which had a supervisor.
		if err := statedir.RemoveCrashes(opts.StateDir); err != nil {
			return nil, errors.Join(err, lock.Release())
		}
		return lock, nil
	}
	if err := opts.Lock.SignAsPlane(); err != nil {
		return nil, errors.Join(err, opts.Lock.Release())
	}
	if crashes, err := statedir.ReadCrashes(opts.StateDir); err == nil && crashes.Count > 0 {
		klog.InfoS("The plane crashed, and its supervisor started it again", "crashes", crashes.Count, "reason", crashes.What)
	}
	return opts.Lock, nil
}

// assemble returns the components in the order in which they start.
func assemble(opts Options) [][]component.Component {
	capiProviders, extras := split(opts.Providers)
	clients := append(kube.ControllerClients(), capi.Clients(capiProviders)...)
	var servers []pki.Server
	if opts.LifecycleProgram != "" {
		extras = append(extras, lifecycleManifests())
		clients = append(clients, lifecycleClient())
		servers = append(servers, lifecycleServer())
	}
	for _, e := range opts.Extensions {
		servers = append(servers, e.Server)
	}
	serverIPs, serverNames := opts.subjects()
	authority := pki.New(pki.Options{
		Dir:             filepath.Join(opts.StateDir, "pki"),
		ServerIPs:       serverIPs,
		ServerNames:     serverNames,
		Clients:         clients,
		Servers:         servers,
		AdminServer:     opts.AdminServer,
		AdminKubeconfig: statedir.Kubeconfig(opts.StateDir),
	})
	restConfig := func(client string) *rest.Config { return authority.RESTConfig(client, opts.loopback()) }
	database := etcd.New(etcd.Options{Dir: filepath.Join(opts.StateDir, "etcd"), Fast: opts.Fast})

	installed := manifests.New(manifests.Options{
		Config:     restConfig(pki.Admin.Name),
		WebhookURL: opts.webhookURL(),
		CABundle:   authority.CABundle,
		Extras:     extras,
	})
	// Not in etcd's directory: a copy of that alone gives no Secret away.
	key := kube.NewKey(filepath.Join(opts.StateDir, "encryption"), database)
	api := newAPIServer(opts, authority, database.Endpoint(), key.ConfigFile(), installed.Converted)
	stages := [][]component.Component{
		{authority.Component(), database.Component()},
		{key.Component()},
		{api.Component()},
		// What comes after acts under RBAC.
		{api.Roles(), installed.Component()},
		{kube.NewControllers(kube.ControllerOptions{
			RESTConfig:      restConfig,
			SigningCertFile: authority.CACertFile(),
			SigningKeyFile:  authority.CAKeyFile(),
		}).Component()},
		// Its managers act under ClusterRoles that the controllers aggregate.
		{capi.New(capi.Options{
			FeatureGates:   opts.FeatureGates,
			RESTConfig:     restConfig,
			WebhookHost:    "127.0.0.1",
			WebhookPort:    opts.WebhookPort,
			WebhookCertDir: authority.WebhookCertDir(),
			DialExtension:  opts.DialExtension,
			Providers:      capiProviders,
		}).Component()},
	}
	if extensions := newExtensions(opts, authority); len(extensions) > 0 {
		stages = append(stages, extensions)
	}
	return stages
}

// newExtensions returns what is registered as an extension, which passes Cluster API's
// webhooks.
func newExtensions(opts Options, authority *pki.Authority) []component.Component {
	var all []component.Component
	for _, e := range opts.Extensions {
		all = append(all, registrar(e.Server.Name, RegistrationOptions{
			Admin: authority.RESTConfig(pki.Admin.Name, opts.loopback()), Manifest: e.Manifest, CABundle: authority.CABundle,
		}))
	}
	if opts.LifecycleProgram != "" {
		all = append(all, newLifecycle(opts, authority))
	}
	return all
}

func newAPIServer(opts Options, authority *pki.Authority, etcdEndpoint, encryptionConfig string, converted func(schema.GroupVersionKind) bool) *kube.Server {
	return kube.NewServer(kube.ServerOptions{
		Dir:                   filepath.Join(opts.StateDir, "apiserver"),
		NoAuditLog:            opts.NoAuditLog,
		EncryptionConfigFile:  encryptionConfig,
		EtcdEndpoint:          etcdEndpoint,
		Bind:                  opts.Bind,
		Listener:              opts.Listener,
		Doors:                 opts.Doors,
		Advertise:             opts.Advertise,
		ServingCertFile:       authority.ServingCertFile(),
		ServingKeyFile:        authority.ServingKeyFile(),
		ClientCAFile:          authority.CACertFile(),
		ServiceAccountKeyFile: authority.ServiceAccountKeyFile(),
		Probe:                 authority.RESTConfig(pki.Admin.Name, opts.loopback()),
		Converted:             converted,
	})
}

func newLifecycle(opts Options, authority *pki.Authority) component.Component {
	c := &Lifecycle{opts: LifecycleOptions{
		Program:       opts.LifecycleProgram,
		LoggingFormat: opts.LoggingFormat,
		Dir:           filepath.Join(opts.StateDir, "lifecycle"),
		Config:        authority.RESTConfig(lifecycleClient().Name, opts.loopback()),
		CertDir:       authority.ServerCertDir(lifecycleServer().Name),
		ClientCAFile:  authority.CACertFile(),
		Admin:         authority.RESTConfig(pki.Admin.Name, opts.loopback()),
		CABundle:      authority.CABundle,
	}}
	return c.component()
}

func split(providers []Provider) ([]capi.Provider, []manifests.Extra) {
	var run []capi.Provider
	var install []manifests.Extra
	for _, p := range providers {
		run = append(run, p.Provider)
		install = append(install, p.Manifests)
	}
	return run, install
}
