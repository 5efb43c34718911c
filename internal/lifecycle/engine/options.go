package engine

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/trace"

	"github.com/slipway-dev/slipway/internal/program"
)

// Options of the engine. DefaultOptions holds what the flags default to.
type Options struct {
	// Namespace restricts the engine to the policies, runs and Clusters of one namespace, in
	// which alone it then needs rights; it takes all when empty. Hooks of Clusters elsewhere
	// are answered with an error, which holds them back.
	Namespace string

	// Hooks serves the lifecycle hooks.
	program.Hooks
	// WebhookAllowedNetworks are those that webhook steps may call besides public
	// addresses, in CIDR notation.
	WebhookAllowedNetworks []string
	// WebhookHost and WebhookPort serve the admission webhooks.
	WebhookHost string
	WebhookPort int
	// CertDir holds tls.crt and tls.key of both servers. They are read again when
	// they change.
	CertDir string

	// MetricsAddress serves metrics over HTTPS, with authentication and
	// authorization by the API server; "0" turns them off.
	MetricsAddress string
	// InsecureMetrics serves them over HTTP, to everyone.
	InsecureMetrics bool
	// ProbeAddress serves /healthz and /readyz; "0" turns them off.
	ProbeAddress string

	// LeaderElection decides which of several replicas executes runs; all of them
	// answer.
	program.LeaderElection

	// RunConcurrency is how many LifecycleRuns are executed at once, and
	// PolicyConcurrency how many LifecyclePolicies are looked after.
	RunConcurrency    int
	PolicyConcurrency int

	// Tracer makes the spans of hooks and runs. Default: that of the environment; see
	// internal/tracing/otlp. It has no flag.
	Tracer trace.TracerProvider
	// SkipNameValidation allows several engines in one process. It has no flag.
	SkipNameValidation bool
}

// DefaultOptions returns the options of an engine that is started without flags.
func DefaultOptions() Options {
	return Options{
		Hooks:             program.Hooks{ExtensionAddress: ":9443", DrainDelay: 5 * time.Second},
		WebhookPort:       9444,
		CertDir:           "/var/run/slipway/serving-certs",
		MetricsAddress:    ":8443",
		ProbeAddress:      ":9440",
		LeaderElection:    program.DefaultLeaderElection(),
		RunConcurrency:    10,
		PolicyConcurrency: 2,
	}
}

func (o *Options) validate() error {
	if err := o.ValidateHooks(); err != nil {
		return err
	}
	_, err := o.allowedNetworks()
	return err
}

// noNetworks is what the list of networks says in a manifest that allows none: clusterctl
// takes a variable with an empty default for one that has to be set.
const noNetworks = "none"

func (o *Options) allowedNetworks() ([]netip.Prefix, error) {
	if len(o.WebhookAllowedNetworks) == 1 && o.WebhookAllowedNetworks[0] == noNetworks {
		return nil, nil
	}
	networks := make([]netip.Prefix, 0, len(o.WebhookAllowedNetworks))
	for _, text := range o.WebhookAllowedNetworks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--webhook-allowed-networks: %q is no network in CIDR notation, such as 10.20.0.0/16", text)
		}
		networks = append(networks, network)
	}
	return networks, nil
}

// BindFlags makes the options settable by flags, named as in Cluster API's own
// managers where they have them.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace to watch, outside of which hooks are refused; all when empty")
	o.Hooks.BindFlags(fs, "address of the lifecycle hooks")
	fs.StringSliceVar(&o.WebhookAllowedNetworks, "webhook-allowed-networks", o.WebhookAllowedNetworks, "networks, such as 10.20.0.0/16, that webhook steps may call besides public addresses; link-local addresses never")
	fs.StringVar(&o.WebhookHost, "webhook-host", o.WebhookHost, "address of the webhooks; all when empty")
	fs.IntVar(&o.WebhookPort, "webhook-port", o.WebhookPort, "port of the webhooks")
	fs.StringVar(&o.CertDir, "cert-dir", o.CertDir, "directory with tls.crt and tls.key of hooks and webhooks")
	fs.DurationVar(&o.DrainDelay, "drain-delay", o.DrainDelay, "how long hooks are still answered after the end was asked for")
	fs.StringVar(&o.MetricsAddress, "diagnostics-address", o.MetricsAddress, "address of the metrics over HTTPS; 0 turns them off")
	fs.BoolVar(&o.InsecureMetrics, "insecure-diagnostics", o.InsecureMetrics, "serve metrics over HTTP, without authentication and authorization")
	fs.StringVar(&o.ProbeAddress, "health-addr", o.ProbeAddress, "address of /healthz and /readyz; 0 turns them off")
	o.LeaderElection.BindFlags(fs, "execute runs only while elected leader")
	fs.IntVar(&o.RunConcurrency, "lifecyclerun-concurrency", o.RunConcurrency, "LifecycleRuns executed at once")
	fs.IntVar(&o.PolicyConcurrency, "lifecyclepolicy-concurrency", o.PolicyConcurrency, "LifecyclePolicies reconciled at once")
}
