package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/internal/status"
)

// watchInterval is how often `status --watch` looks.
const watchInterval = time.Second

func statusCommand(p *Program) *cobra.Command {
	var (
		output  string
		explain string
		watch   bool
	)
	f := &scopeFlags{managementFlags: managementFlags{program: p}}
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the management cluster, its clusters and hosts, and what is waited for",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, scope, err := f.target(cmd)
			if err != nil {
				return err
			}
			gather := func(ctx context.Context) (result, error) {
				if explain != "" {
					return placementResult(ctx, cluster, scope.Namespace, explain)
				}
				s, err := cluster.Status(ctx, scope)
				return statusResult(s), err
			}
			show := func(ctx context.Context, out io.Writer) error {
				r, err := gather(ctx)
				if err != nil {
					return cluster.Explain(err)
				}
				return r.write(out, output)
			}
			if watch {
				return watchStatus(cmd, frames(output, cmd.OutOrStdout()), show)
			}
			return show(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f.bind(command)
	command.Flags().BoolVarP(&watch, "watch", "w", false, "show it again every second until interrupted: in place on a terminal, elsewhere when it has changed; with -o json one document a line")
	command.Flags().StringVar(&explain, "explain", "", "show which hosts fit this machine (name or namespace/name), and why the others don't")
	outputFlag(command, &output, listFormats...)
	return command
}

func statusResult(s status.Status) result {
	shown := result{object: s, table: func(out io.Writer, wide bool) error { return status.Render(out, s, wide) }}
	for _, c := range s.Clusters {
		shown.names = append(shown.names, "cluster."+clusterv1.GroupVersion.Group+"/"+c.Name)
	}
	for _, h := range s.Hosts {
		shown.names = append(shown.names, hostName(h.Name))
	}
	return shown
}

func hostName(name string) string { return "host." + infrav1.GroupVersion.Group + "/" + name }

func placementResult(ctx context.Context, cluster *management.Cluster, namespace, machine string) (result, error) {
	c, err := cluster.Client()
	if err != nil {
		return result{}, err
	}
	p, err := status.Explain(ctx, c, namespace, machine)
	shown := result{object: p, table: func(out io.Writer, _ bool) error { return status.RenderPlacement(out, p) }}
	for _, h := range p.Hosts {
		if h.Fits {
			shown.names = append(shown.names, hostName(h.Name))
		}
	}
	return shown, err
}

// frame makes of a status what is written for it, given the last one; empty when there
// is nothing to write.
type frame func(text, last string) string

// frames of a format for a terminal, a pipe or a program.
func frames(format string, out io.Writer) frame {
	switch {
	case format == outputJSON:
		return func(text, _ string) string { return text }
	case format == outputYAML:
		return func(text, _ string) string { return "---\n" + text }
	case onTerminal(out):
		return redrawn
	}
	return appended
}

// redrawn writes over the last one, at once, so that it does not flicker.
func redrawn(text, last string) string {
	home := "\x1b[H"
	if last == "" {
		home += "\x1b[2J"
	}
	return home + strings.ReplaceAll(text, "\n", "\x1b[K\n") + "\x1b[J"
}

// appended writes what has changed below the last one.
func appended(text, last string) string {
	switch last {
	case text:
		return ""
	case "":
		return text
	}
	return "\n" + text
}

// watchStatus shows it again and again until it is interrupted. Once it was shown, it tolerates
// an API server that is unavailable for a moment: the error is written once.
func watchStatus(cmd *cobra.Command, draw frame, show func(context.Context, io.Writer) error) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	shown, last, fault := false, "", ""
	for {
		var text bytes.Buffer
		err := show(ctx, &text)
		switch {
		case ctx.Err() != nil:
		case err != nil && shown && away(err):
			if err.Error() != fault {
				fault = err.Error()
				_, _ = escapes.WriteString(cmd.ErrOrStderr(), fault+"; trying again\n")
			}
		default:
			_, writeErr := io.WriteString(out, draw(text.String(), last))
			if err != nil || writeErr != nil {
				return errors.Join(err, writeErr)
			}
			shown, last, fault = true, text.String(), ""
		}
		select {
		case <-ctx.Done():
			if onTerminal(out) {
				fmt.Fprintln(out) // behind the terminal's ^C
			}
			return nil
		case <-ticker.C:
		}
	}
}
