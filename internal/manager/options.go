package manager

import (
	"context"
	"net"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/component-base/featuregate"

	"github.com/slipway-dev/slipway/internal/bundleserver"
	"github.com/slipway-dev/slipway/internal/hosthooks"
	"github.com/slipway-dev/slipway/internal/program"
)

// Options of the provider. DefaultOptions holds what the flags default to.
type Options struct {
	// Namespace restricts the provider to one namespace; it takes all when empty.
	Namespace string
	// WatchFilter restricts it to objects with that value of the label
	// cluster.x-k8s.io/watch-filter; it takes all when empty.
	WatchFilter string

	// MetricsAddress serves metrics over HTTPS, with authentication and
	// authorization by the API server; "0" turns them off.
	MetricsAddress string
	// ProbeAddress serves /healthz and /readyz; "0" turns them off.
	ProbeAddress string
	// WebhookPort serves the webhooks.
	WebhookPort int
	// WebhookCertDir holds tls.crt and tls.key of the webhook server.
	WebhookCertDir string

	// LeaderElection decides which of several managers works; the others wait.
	program.LeaderElection

	// HostConcurrency is how many Hosts are reconciled at once; likewise for the
	// other kinds.
	HostConcurrency            int
	HostClusterConcurrency     int
	HostMachineConcurrency     int
	HostMachinePoolConcurrency int

	// StatusDelay is how long hosts and machines that are being bootstrapped may go
	// on before their status tells how far they are. Errors and the end of a
	// bootstrap are told at once.
	StatusDelay time.Duration

	// FeatureGates turn on and off what is not for everybody, or not yet; see
	// NewFeatureGates.
	FeatureGates featuregate.MutableFeatureGate

	// Hooks serves the hooks of updates in place, with the gate InPlaceUpdates.
	program.Hooks

	// HostBundles serves host bundles to hosts; nothing without a directory.
	HostBundles bundleserver.Options

	// DialExtension connects to runtime extensions. Default: a plain dialer that
	// refuses link-local addresses. It has no flag.
	DialExtension func(ctx context.Context, network, address string) (net.Conn, error)

	// Tracer makes the spans of claims, operations and hooks. Default: that of the
	// environment; see internal/tracing/otlp. It has no flag.
	Tracer trace.TracerProvider

	// hostHooks is shared by the controllers.
	hostHooks *hosthooks.Hooks

	// SkipNameValidation allows several managers with the same controllers in
	// one process.
	SkipNameValidation bool
}

// DefaultOptions returns the options of a manager that is started without flags.
func DefaultOptions() Options {
	return Options{
		MetricsAddress:             ":8443",
		ProbeAddress:               ":9440",
		WebhookPort:                9443,
		WebhookCertDir:             "/tmp/k8s-webhook-server/serving-certs/",
		LeaderElection:             program.DefaultLeaderElection(),
		HostConcurrency:            10,
		HostClusterConcurrency:     5,
		HostMachineConcurrency:     10,
		HostMachinePoolConcurrency: 5,
		FeatureGates:               NewFeatureGates(),
		Hooks:                      program.Hooks{ExtensionAddress: ":9444", DrainDelay: 5 * time.Second},
		HostBundles:                bundleserver.DefaultOptions(),
		// Longer than the states before a bootstrap take, shorter than a bootstrap.
		StatusDelay: 10 * time.Second,
	}
}

// BindFlags makes the options settable by flags, named as in Cluster API's own
// managers.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace to watch; all when empty")
	fs.StringVar(&o.WatchFilter, "watch-filter", o.WatchFilter, "watch only objects with this value of the label cluster.x-k8s.io/watch-filter; all when empty")
	fs.StringVar(&o.MetricsAddress, "diagnostics-address", o.MetricsAddress, "address of the metrics over HTTPS; 0 turns them off")
	fs.StringVar(&o.ProbeAddress, "health-addr", o.ProbeAddress, "address of /healthz and /readyz; 0 turns them off")
	fs.IntVar(&o.WebhookPort, "webhook-port", o.WebhookPort, "port of the webhooks")
	fs.StringVar(&o.WebhookCertDir, "webhook-cert-dir", o.WebhookCertDir, "directory with tls.crt and tls.key of the webhooks")
	o.LeaderElection.BindFlags(fs, "wait until this manager is elected leader")
	fs.IntVar(&o.HostConcurrency, "host-concurrency", o.HostConcurrency, "Hosts reconciled at once")
	fs.IntVar(&o.HostClusterConcurrency, "hostcluster-concurrency", o.HostClusterConcurrency, "HostClusters reconciled at once")
	fs.IntVar(&o.HostMachineConcurrency, "hostmachine-concurrency", o.HostMachineConcurrency, "HostMachines reconciled at once")
	fs.DurationVar(&o.StatusDelay, "status-delay", o.StatusDelay, "how long a bootstrap may go on before statuses tell how far it is")
	o.FeatureGates.AddFlag(fs)
	o.Hooks.BindFlags(fs, "address of the hooks of updates in place, which the feature gate InPlaceUpdates serves with the certificate of the webhooks")
	o.bindHostBundles(fs)
	fs.IntVar(&o.HostMachinePoolConcurrency, "hostmachinepool-concurrency", o.HostMachinePoolConcurrency, "HostMachinePools reconciled at once")
}

func (o *Options) bindHostBundles(fs *pflag.FlagSet) {
	b := &o.HostBundles
	fs.StringVar(&b.Dir, "host-bundle-dir", b.Dir, "directory with host bundles, as slipway bundle load writes it, which are served to hosts; nothing is served when empty")
	fs.StringVar(&b.URL, "host-bundle-url", b.URL, "how hosts reach them, as in https://192.0.2.10:9445; required with --host-bundle-dir")
	fs.StringVar(&b.Address, "host-bundle-address", b.Address, "address to serve them on, over TLS and to the agents of hosts alone")
	fs.StringVar(&b.CertFile, "host-bundle-cert-file", b.CertFile, "certificate of their server, for the host of --host-bundle-url")
	fs.StringVar(&b.KeyFile, "host-bundle-key-file", b.KeyFile, "its key")
	fs.StringVar(&b.CAFile, "host-bundle-ca-file", b.CAFile, "the CA that signed it, whose digest hosts are told; where there is no such file they verify it by the CA of the management cluster")
	fs.StringVar(&b.ClientCAFile, "host-bundle-client-ca-file", b.ClientCAFile, "the CA that signs certificates of clients in the management cluster, as kube-apiserver's --client-ca-file")
	fs.IntVar(&b.Downloads, "host-bundle-downloads", b.Downloads, "downloads at once in each replica; hosts beyond it are told to come again")
}
