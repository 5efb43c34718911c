package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/answer"
	"github.com/slipway-dev/slipway/internal/display"
)

// watchInterval is the least time between two looks with --watch.
const watchInterval = time.Second

// watchShare is the part of the time that a look may take: behind one that took long comes a pause of this many
// times as long.
const watchShare = 4

// watchFlag is --watch, which all that shows a state has.
type watchFlag struct{ watch bool }

func (f *watchFlag) bind(command *cobra.Command) {
	command.Flags().BoolVarP(&f.watch, "watch", "w", false, "show it again whenever it changes, until interrupted: in place on a terminal; with -o json or yaml as a stream of documents")
}

// show writes what gather returns: once, or with --watch until it is interrupted.
func (f *watchFlag) show(cmd *cobra.Command, output string, gather func(context.Context) (result, error)) error {
	if f.watch {
		return watch(cmd, output, gather)
	}
	shown, err := gather(cmd.Context())
	if err != nil {
		return err
	}
	return shown.write(cmd.OutOrStdout(), output)
}

// watch writes what changed, and on a terminal what people read in place. Once something was shown, it tolerates an API
// server that is unavailable for a moment: the error is written once.
func watch(cmd *cobra.Command, output string, gather func(context.Context) (result, error)) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	screen, _ := out.(*display.Screen)
	w := watcher{out: out, output: output, draws: screen != nil && screen.Terminal && output != outputJSON && output != outputYAML}
	fault := ""
	for {
		begin := time.Now()
		shown, err := gather(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil && w.last != "" && answer.Passing(err):
			if err.Error() != fault {
				fault = err.Error()
				_ = display.WriteVisible(cmd.ErrOrStderr(), fault+"; trying again\n")
			}
		default:
			if err == nil {
				err = w.show(shown)
			}
			if err != nil {
				return err
			}
			fault = ""
		}
		select {
		case <-ctx.Done():
			if w.draws {
				fmt.Fprintln(out) // behind the terminal's ^C
			}
			return nil
		case <-time.After(max(watchInterval, watchShare*time.Since(begin))):
		}
	}
}

// watcher writes one state after the other.
type watcher struct {
	out    io.Writer
	output string
	// draws says that a state is written over the one before.
	draws bool
	// last is what was compared of the last state; empty before the first.
	last string
}

func (w *watcher) show(r result) error {
	if w.draws {
		return w.draw(r)
	}
	var text bytes.Buffer
	if err := r.write(&text, w.output); err != nil {
		return err
	}
	// Ages are in tables alone: they change without the state.
	state := text.String()
	if w.output == outputTable || w.output == outputWide || r.state != nil {
		data, err := json.Marshal(cmp.Or(r.state, r.object))
		if err != nil {
			return err
		}
		state = string(data)
	}
	first := w.last == ""
	if state == w.last {
		return nil
	}
	w.last = state
	separator := "\n"
	switch {
	case w.output == outputYAML:
		separator = "---\n"
	case w.output == outputJSON, first:
		separator = ""
	}
	_, err := io.WriteString(w.out, separator+text.String())
	return err
}

// draw writes over the last one, at once, so that it does not flicker, and no more than fits.
func (w *watcher) draw(r result) error {
	page, err := r.page(w.out, w.output)
	if err != nil {
		return err
	}
	text, more := page.Rows()
	if more > 0 {
		text += fmt.Sprintf("… %d more lines; a higher window, -n or -l shows them\n", more)
	}
	home := "\x1b[H"
	if w.last == "" {
		home += "\x1b[2J"
	}
	w.last = "drawn"
	_, err = io.WriteString(w.out, home+strings.ReplaceAll(text, "\n", "\x1b[K\n")+"\x1b[J")
	return err
}
