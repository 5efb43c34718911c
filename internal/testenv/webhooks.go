package testenv

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strconv"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// ServeWebhooks installs the webhook configurations of options and runs a manager
// that answers them, with the rights of config, until the API server is stopped. It returns
// the address once something answers there.
func (e *Env) ServeWebhooks(config *rest.Config, options *envtest.WebhookInstallOptions, setup func(ctrl.Manager) error) (string, error) {
	if err := options.Install(e.Config); err != nil {
		return "", err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  e.Scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir,
		}),
	})
	if err != nil {
		return "", err
	}
	if err := setup(mgr); err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := mgr.Start(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "run the webhook server:", err)
		}
	}()
	// An API server that stops waits a minute for watches that nobody ends.
	e.others = append(e.others, func() {
		cancel()
		<-ended
		_ = options.Cleanup()
	})
	address := net.JoinHostPort(options.LocalServingHost, strconv.Itoa(options.LocalServingPort))
	return address, awaitServer(address)
}

func awaitServer(address string) error {
	return poll.Wait(func() error {
		// The certificate is not the point: only that something answers.
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // see above
		if err != nil {
			return err
		}
		return conn.Close()
	})
}
