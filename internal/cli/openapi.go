package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/hookdocs"
	"github.com/slipway-dev/slipway/sdk/listener"
)

func openapiCommand() *cobra.Command {
	var (
		catalog, output, listen string
		serve                   bool
	)
	command := &cobra.Command{
		Use:   "openapi",
		Short: "Print the OpenAPI document of the runtime hooks, or show it in a browser",
		Long: `Print the OpenAPI v3 document of the runtime hooks that this release calls: those of
Cluster API, those of the slipway provider, or all. With --serve, show them on a page on
the machine's loopback until interrupted. It needs neither a network nor a plane.`,
		Example: `  slipway openapi --catalog capi -o yaml
  slipway openapi --serve`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if serve {
				return serveHookDocs(cmd, listen)
			}
			document, err := hookdocs.Document(catalog)
			if err != nil {
				return err
			}
			data, err := document.JSON()
			if err != nil {
				return err
			}
			if output == outputJSON {
				_, err = cmd.OutOrStdout().Write(append(data, '\n'))
				return err
			}
			return result{object: json.RawMessage(data)}.write(cmd.OutOrStdout(), output)
		},
	}
	command.Flags().StringVar(&catalog, "catalog", hookdocs.All, "hooks to describe: "+hookdocs.CAPI+", "+hookdocs.Host+" or "+hookdocs.All)
	completeFlag(command, "catalog", hookdocs.Names())
	command.Flags().BoolVar(&serve, "serve", false, "serve a page that shows the hooks, and the documents, until interrupted")
	command.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "loopback address of --serve; port 0 is any free one")
	outputFlag(command, &output, outputJSON, outputYAML)
	command.AddCommand(openapiDiffCommand())
	return command
}

// serveHookDocs serves on loopback only: the page is for whoever sits at the machine.
func serveHookDocs(cmd *cobra.Command, listen string) error {
	address, err := netip.ParseAddrPort(listen)
	if err != nil || !address.Addr().IsLoopback() {
		return fmt.Errorf("--listen %q: want a loopback address with a port, such as 127.0.0.1:8090", listen)
	}
	handler, err := hookdocs.Handler()
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", listen, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(cmd.Context(), func() { _ = server.Close() })
	defer stop()
	fmt.Fprintf(cmd.OutOrStdout(), "http://%s/\n", l.Addr())
	if err := server.Serve(listener.New(l, listener.Options{})); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
