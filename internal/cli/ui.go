package cli

import (
	"context"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/slipway-dev/slipway/internal/console"
	"github.com/slipway-dev/slipway/internal/management"
)

func uiCommand(p *Program) *cobra.Command {
	f, address, open := &managementFlags{program: p}, "", false
	command := &cobra.Command{
		Use:   "ui",
		Short: "Show hosts, clusters and what waits in the browser, as it changes",
		Long: `Serve the console until interrupted: pages for the browser that show hosts, clusters and
lifecycle runs live, and on which waiting steps are approved, skipped and retried. It
acts with your kubeconfig and its rights; nothing is installed.

It listens only on this machine, and the address that it prints works once, in one
browser. From another machine: ssh -L 8080:127.0.0.1:8080, and --address 127.0.0.1:8080.`,
		Example: `  slipway ui --open
  slipway ui --context prod --address 127.0.0.1:8080`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, err := f.find(cmd)
			if err != nil {
				return err
			}
			c, err := ListenConsole(cmd.Context(), cluster, address, f.namespace)
			if err != nil {
				return err
			}
			return cluster.Explain(serveConsole(cmd, c, cluster.Name, open))
		},
	}
	f.bindCluster(command)
	command.Flags().StringVarP(&f.namespace, "namespace", "n", "", "only what is in this namespace, for users with rights in no other; all when empty")
	f.completeNamespaces(command)
	command.Flags().StringVar(&address, "address", console.DefaultAddress, "address of the loopback device to listen on, host:port; a free port for 0")
	command.Flags().BoolVar(&open, "open", false, "open it in the browser")
	return command
}

// ListenConsole makes the console of a management cluster; it answers once it is served.
func ListenConsole(ctx context.Context, cluster *management.Cluster, address, namespace string) (*console.Console, error) {
	// The page tells what goes wrong with a watch; the terminal is for the address.
	ctrllog.SetLogger(logr.Discard())
	config, err := cluster.Config()
	if err != nil {
		return nil, cluster.Explain(err)
	}
	client, err := cluster.Client()
	if err != nil {
		return nil, cluster.Explain(err)
	}
	c, err := console.Listen(ctx, console.Config{
		Address: address, Rest: config, Client: client, Namespace: namespace, Name: cluster.Name, Explain: cluster.Explain,
		Kubeconfig: func(ctx context.Context, reader ctrlclient.Reader, of ctrlclient.ObjectKey) ([]byte, error) {
			kubeconfig, err := cluster.WorkloadKubeconfig(ctx, reader, of)
			return kubeconfig.Data, err
		},
	})
	return c, cluster.Explain(err)
}

func serveConsole(cmd *cobra.Command, c *console.Console, name string, open bool) error {
	fmt.Fprintf(cmd.OutOrStdout(), "Showing %s. This address works once, in one browser; Ctrl-C ends it:\n  %s\n", name, c.URL())
	if open {
		leave, err := openBrowser(cmd.Context(), c.URL())
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "No browser could be opened (%v): open the address yourself.\n", err)
		}
		defer leave()
	}
	return c.Serve(cmd.Context())
}

// openBrowser opens a page that leads to url. The address itself would be on the command
// line of the browser, which every user of the machine can read.
func openBrowser(ctx context.Context, url string) (leave func(), err error) {
	leave = func() {}
	dir, err := os.MkdirTemp("", "slipway-ui-")
	if err != nil {
		return leave, err
	}
	leave = func() { _ = os.RemoveAll(dir) }
	page := filepath.Join(dir, "open.html")
	text := fmt.Sprintf(`<!doctype html><title>Slipway</title><meta http-equiv="refresh" content="0; url=%s">`, html.EscapeString(url))
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		return leave, err
	}
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	}
	// The browser of a user who had none open is the one that starts here: it outlives the
	// console, whose Ctrl-C is for all of its session.
	browser := exec.CommandContext(context.WithoutCancel(ctx), opener, page)
	browser.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	browser.Stdout, browser.Stderr = io.Discard, io.Discard
	if err := browser.Start(); err != nil {
		return leave, err
	}
	go func() { _ = browser.Wait() }()
	return leave, nil
}
