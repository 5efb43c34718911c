package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/planeclient"
	"github.com/slipway-dev/slipway/plane/internal/status"
)

// watchInterval is how often `status --watch` looks.
const watchInterval = time.Second

func statusCommand(g *global) *cobra.Command {
	var (
		output  string
		explain string
		watch   bool
	)
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the plane, its clusters and hosts, and what is waited for",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			inst, err := g.open()
			if err != nil {
				return err
			}
			show := func(ctx context.Context, out io.Writer) error {
				if explain != "" {
					return showPlacement(ctx, out, inst, explain, output == outputJSON)
				}
				s, err := planeclient.Status(ctx, inst)
				if err != nil {
					return err
				}
				if output == outputJSON {
					return json.NewEncoder(out).Encode(s)
				}
				return status.Render(out, s, output == outputWide)
			}
			if watch {
				return watchStatus(cmd, output == outputJSON, show)
			}
			return show(cmd.Context(), cmd.OutOrStdout())
		},
	}
	command.Flags().BoolVarP(&watch, "watch", "w", false, "show it again every second until interrupted; with -o json one document a line")
	command.Flags().StringVar(&explain, "explain", "", "show which hosts fit this machine (name or namespace/name), and why the others don't")
	outputFlag(command, &output, outputJSON, outputWide)
	return command
}

func showPlacement(ctx context.Context, out io.Writer, inst *instance.Instance, machine string, asJSON bool) error {
	c, err := planeclient.New(inst)
	if err != nil {
		return err
	}
	p, err := status.Explain(ctx, c, machine)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(out).Encode(p)
	}
	return status.RenderPlacement(out, p)
}

// watchStatus shows it again and again until it is interrupted. A frame is
// written at once and over the last one, so that it does not flicker.
func watchStatus(cmd *cobra.Command, lines bool, show func(context.Context, io.Writer) error) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for clear := "\x1b[H\x1b[2J"; ; clear = "\x1b[H" {
		var frame bytes.Buffer
		err := show(ctx, &frame)
		if ctx.Err() == nil {
			text := frame.String()
			if !lines {
				text = clear + strings.ReplaceAll(text, "\n", "\x1b[K\n") + "\x1b[J"
			}
			if _, writeErr := io.WriteString(out, text); err != nil || writeErr != nil {
				return errors.Join(err, writeErr)
			}
		}
		select {
		case <-ctx.Done():
			if !lines {
				fmt.Fprintln(out) // behind the terminal's ^C
			}
			return nil
		case <-ticker.C:
		}
	}
}
