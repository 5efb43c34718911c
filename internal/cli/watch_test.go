package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/internal/display"
)

// watched runs watch on the results of looks, one after the other, until they are over, and returns what was
// written each time.
func watched(t *testing.T, out io.Writer, format string, looks ...func() (result, error)) (errOut string, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	command, errs := &cobra.Command{}, &bytes.Buffer{}
	command.SetContext(ctx)
	command.SetOut(out)
	command.SetErr(errs)
	n := 0
	err = watch(command, format, func(context.Context) (result, error) {
		if n++; n > len(looks) {
			cancel()
			return result{}, context.Canceled
		}
		return looks[n-1]()
	})
	return errs.String(), err
}

// seen is a look at a state, as which its age is shown.
func seen(state, age string) func() (result, error) {
	return func() (result, error) {
		return result{object: map[string]string{"state": state}, names: []string{state}, table: func(page *display.Page, _ bool) error {
			_, err := fmt.Fprintln(page, state, age)
			return err
		}}, nil
	}
}

// A pipe gets what changed, once: a state that has grown older has not. Nothing in it steers a terminal.
func TestWatchWritesWhatChanged(t *testing.T) {
	for format, want := range map[string][]string{
		outputTable:                {"a 1s\n", "\nb 3s\n", "\na 4s\n"},
		outputWide:                 {"a 1s\n", "\nb 3s\n", "\na 4s\n"},
		outputName:                 {"a\n", "\nb\n", "\na\n"},
		outputJSON:                 {`{"state":"a"}` + "\n", `{"state":"b"}` + "\n", `{"state":"a"}` + "\n"},
		outputYAML:                 {"---\nstate: a\n", "---\nstate: b\n", "---\nstate: a\n"},
		"jsonpath={.state}{'\\n'}": {"a\n", "\nb\n", "\na\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out writes
			if _, err := watched(t, &out, format, seen("a", "1s"), seen("a", "2s"), seen("b", "3s"), seen("a", "4s")); err != nil {
				t.Errorf("-o %s: an interrupt is not an error: %v", format, err)
			}
			if !slices.Equal(out, want) {
				t.Errorf("-o %s writes %q, want %q", format, out, want)
			}
		})
	}
}

// What doctor found is the same until it finds something else: its time is not compared.
func TestWatchComparesTheStateOfAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out writes
		look := func() (result, error) {
			return result{object: map[string]time.Time{"time": time.Now()}, state: []string{"the same"}}, nil
		}
		if _, err := watched(t, &out, outputJSON, look, look, look); err != nil || len(out) != 1 {
			t.Errorf("%v, writes %q", err, out)
		}
	})
}

// A terminal is drawn over at once, also with ages alone, and no more than fits.
func TestWatchDrawsOnATerminal(t *testing.T) {
	t.Setenv("COLUMNS", "10")
	t.Setenv("LINES", "5")
	synctest.Test(t, func(t *testing.T) {
		var out writes
		screen := &display.Screen{Writer: &out, Terminal: true}
		long := strings.Repeat("x", 25)
		if _, err := watched(t, screen, outputTable, seen("a", "1s"), seen("a", "2s"), seen("one\n"+long, "\ntwo\nthree")); err != nil {
			t.Error(err)
		}
		want := []string{
			"\x1b[H\x1b[2Ja 1s\x1b[K\n\x1b[J", "\x1b[Ha 2s\x1b[K\n\x1b[J",
			"\x1b[Hone\x1b[K\n… 3 more lines; a higher window, -n or -l shows them\x1b[K\n\x1b[J", "\n",
		}
		if !slices.Equal(out, want) {
			t.Errorf("writes %q, want %q", out, want)
		}
	})
}

// Errors which may pass do not end a watch once it has shown something, and are written once each; others end it.
func TestWatchGoesOnWhileTheAPIServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused, busy := errors.New("connection refused"), apierrors.NewTooManyRequests("busy", 1)
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "hosts"}, "", errors.New("no"))
		fails := func(err error) func() (result, error) { return func() (result, error) { return result{}, err } }
		var out writes
		errOut, err := watched(t, &out, outputTable, seen("a", "1s"), fails(refused), fails(refused), fails(busy), seen("b", "2s"), fails(refused), fails(forbidden))
		if !errors.Is(err, forbidden) {
			t.Errorf("ends with %v", err)
		}
		if got := strings.Join(out, "|"); got != "a 1s\n|\nb 2s\n" {
			t.Errorf("writes %q", got)
		}
		if errOut != "connection refused; trying again\nToo many requests: busy; trying again\nconnection refused; trying again\n" && errOut != "connection refused; trying again\nbusy; trying again\nconnection refused; trying again\n" {
			t.Errorf("writes the errors %q", errOut)
		}
		if _, err := watched(t, &out, outputTable, fails(refused)); !errors.Is(err, refused) {
			t.Errorf("before anything was shown: %v", err)
		}
	})
}

// A look that takes long is followed by a longer pause.
func TestWatchLeavesTheAPIServerTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		slow := func() (result, error) {
			time.Sleep(3 * time.Second)
			return seen("a", "")()
		}
		if _, err := watched(t, io.Discard, outputTable, slow, slow); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != 30*time.Second {
			t.Errorf("two looks took %s with their pauses", took)
		}
	})
}

// Each list, status and doctor have the same flag.
func TestAllListsHaveWatch(t *testing.T) {
	for _, line := range []string{"status", "doctor", "host list", "cluster get", "bundle list", "lifecycle explain"} {
		command, _, err := plugin().Find(strings.Fields(line))
		if err != nil {
			t.Fatal(err)
		}
		if flag := command.Flags().Lookup("watch"); flag == nil || flag.Shorthand != "w" {
			t.Errorf("%s has no -w", line)
		}
	}
}
