// Command slipway-lifecycle is a runtime extension that answers the lifecycle hooks of
// Cluster API from LifecyclePolicies, and executes what they declare.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/internal/lifecycle/manager"
	"github.com/slipway-dev/slipway/internal/version"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "slipway-lifecycle:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	options := manager.DefaultOptions()
	logging := logsv1.NewLoggingConfiguration()
	flags := pflag.NewFlagSet("slipway-lifecycle", pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	options.BindFlags(flags)
	logsv1.AddFlags(logging, flags)
	showVersion := flags.Bool("version", false, "print the version and exit")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil
		}
		return err
	}
	if *showVersion {
		fmt.Println(version.Version)
		return nil
	}
	if err := logsv1.ValidateAndApply(logging, nil); err != nil {
		return fmt.Errorf("configure the log: %w", err)
	}
	ctrl.SetLogger(klog.Background())

	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w; run in a pod or set KUBECONFIG", err)
	}
	config.UserAgent = "slipway-lifecycle/" + version.Version
	return manager.Run(ctrl.SetupSignalHandler(), config, options)
}
