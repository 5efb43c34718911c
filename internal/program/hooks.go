package program

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/slipway-dev/slipway/sdk/extension"
)

// ErrOpenHooks is why a program that would answer the hooks of anybody does not start.
var ErrOpenHooks = errors.New("anybody who reaches the port could call hooks: set --extension-client-ca-file to the CA of core's client certificate, or --insecure-hooks")

// Hooks is how a program serves hooks, in every replica.
type Hooks struct {
	// ExtensionAddress serves the hooks.
	ExtensionAddress string
	// ExtensionClientCAFile holds the CAs, in PEM form, one of which must have signed the certificate of
	// a caller. It is read again when it changes.
	ExtensionClientCAFile string
	// ExtensionClientNames are the common names of the certificates that may call; all that the CAs have
	// signed when empty.
	ExtensionClientNames []string
	// InsecureHooks has hooks answered to callers without a certificate.
	InsecureHooks bool
	// DrainDelay is how long hooks are still answered after the end was asked for.
	DrainDelay time.Duration
}

// BindFlags makes the hooks settable by flags, but for DrainDelay. The usage is that of the address.
func (h *Hooks) BindFlags(fs *pflag.FlagSet, usage string) {
	fs.StringVar(&h.ExtensionAddress, "extension-address", h.ExtensionAddress, usage)
	fs.StringVar(&h.ExtensionClientCAFile, "extension-client-ca-file", h.ExtensionClientCAFile, "CAs, in PEM form, one of which must have signed the certificate of who calls hooks: that of core's --runtime-extension-client-cert-file")
	fs.StringSliceVar(&h.ExtensionClientNames, "extension-client-names", h.ExtensionClientNames, "common names of the certificates that may call hooks; all that the CAs have signed when empty")
	fs.BoolVar(&h.InsecureHooks, "insecure-hooks", h.InsecureHooks, "answer the hooks of callers without a certificate")
}

// ValidateHooks returns ErrOpenHooks when anybody could call.
func (h *Hooks) ValidateHooks() error {
	if h.ExtensionClientCAFile == "" && !h.InsecureHooks {
		return ErrOpenHooks
	}
	return nil
}

// NewHookServer makes the server, with tls.crt and tls.key of certDir. The manager serves its metrics with its
// own: who may scrape is not who may call hooks.
func (h *Hooks) NewHookServer(certDir string, tracer trace.TracerProvider, logger logr.Logger) (*extension.Server, error) {
	if err := h.ValidateHooks(); err != nil {
		return nil, err
	}
	options := extension.Options{
		Address:  h.ExtensionAddress,
		CertFile: filepath.Join(certDir, "tls.crt"), KeyFile: filepath.Join(certDir, "tls.key"),
		DrainDelay: h.DrainDelay,
		Metrics:    metrics.Registry, Gatherer: prometheus.Gatherers{},
		Tracer: tracer, Logger: logger,
	}
	if !h.InsecureHooks {
		options.ClientCAFile, options.ClientNames = h.ExtensionClientCAFile, h.ExtensionClientNames
	}
	return extension.New(options)
}
