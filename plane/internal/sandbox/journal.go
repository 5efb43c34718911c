package sandbox

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ShowLog writes the last lines of a log, and with follow what is appended until the context ends.
func ShowLog(ctx context.Context, out io.Writer, open func() (*os.File, error), lines int, follow bool) error {
	f, err := open()
	if missing := (*os.PathError)(nil); errors.As(err, &missing) && errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("no log yet at %s: the service has not run", missing.Path)
	}
	if err != nil {
		return err
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	all := strings.SplitAfter(string(data), "\n")
	for _, line := range all[max(0, len(all)-lines-1):] {
		if _, err := io.WriteString(out, line); err != nil {
			return err
		}
	}
	if !follow {
		return nil
	}
	return followLog(ctx, out, open, int64(len(data)))
}

// followLog copies what is appended. A log that was cut starts over.
func followLog(ctx context.Context, out io.Writer, open func() (*os.File, error), from int64) error {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		f, err := open()
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err != nil {
			return errors.Join(err, f.Close())
		}
		if info.Size() < from {
			from = 0
		}
		n, err := io.Copy(out, io.NewSectionReader(f, from, info.Size()-from))
		from += n
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
}

// Journalctl does on a local host what slipway-agent has journalctl do, with the files of its services:
// their lines have no times of their own, so --since has no effect.
func Journalctl(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("journalctl", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	unit, lines := flags.String("unit", "", ""), flags.Int("lines", 10, "")
	kernel, follow := flags.Bool("dmesg", false, ""), flags.Bool("follow", false, "")
	for _, ignored := range []string{"since", "output"} {
		flags.String(ignored, "", "")
	}
	for _, ignored := range []string{"no-pager", "quiet"} {
		flags.Bool(ignored, false, "")
	}
	switch err := flags.Parse(args); {
	case err != nil:
		return err
	case *kernel:
		return errors.New("a local host has no kernel of its own")
	case *unit == "" || *unit != filepath.Base(*unit) || flags.NArg() > 0:
		return errors.New("want --unit")
	}
	return ShowLog(ctx, out, func() (*os.File, error) { return os.Open(filepath.Join("/var/log", *unit+".log")) }, *lines, *follow)
}
