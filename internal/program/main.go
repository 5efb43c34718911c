package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // for --logging-format=json
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/internal/version"
)

// Program is a command that works on an API server until it is told to end.
type Program struct {
	// Name of the command. Its errors and its requests carry it.
	Name string
	// BindFlags adds the flags of its own; --version and those of the log, as
	// Kubernetes' components have them, come on top.
	BindFlags func(*pflag.FlagSet)
	// Run blocks until the context is done or the program fails. It is called once
	// the flags are parsed.
	Run func(context.Context, *rest.Config) error
}

// Main runs a program with the arguments of this process until SIGTERM or SIGINT, on
// the API server of the pod or of $KUBECONFIG. It exits with 1 when the program fails.
func Main(p Program) {
	err := p.execute(ctrl.SetupSignalHandler(), os.Args[1:], os.Stdout)
	if err == nil {
		return
	}
	if logged := (*loggedError)(nil); !errors.As(err, &logged) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
	}
	os.Exit(1)
}

// loggedError is one that the log has, in its format: who reads that by machine would lose
// a line that is none, and with it why the program ended.
type loggedError struct{ error }

func (e *loggedError) Unwrap() error { return e.error }

func (p Program) execute(ctx context.Context, args []string, out io.Writer) error {
	logging := logsv1.NewLoggingConfiguration()
	flags := pflag.NewFlagSet(p.Name, pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	p.BindFlags(flags)
	logsv1.AddFlags(logging, flags)
	showVersion := flags.Bool("version", false, "print the version and exit")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil
		}
		return err
	}
	if *showVersion {
		fmt.Fprintln(out, version.Version)
		return nil
	}
	if err := logsv1.ValidateAndApply(logging, nil); err != nil {
		return fmt.Errorf("configure the log: %w", err)
	}
	ctrl.SetLogger(klog.Background())
	if err := p.run(ctx); err != nil {
		klog.Background().Error(err, "Ended by an error", "program", p.Name)
		klog.Flush()
		return &loggedError{err}
	}
	return nil
}

func (p Program) run(ctx context.Context) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w; run in a pod or set KUBECONFIG", err)
	}
	config.UserAgent = p.Name + "/" + version.Version
	return p.Run(ctx, config)
}
