package sandbox

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// LogQuery is what is shown of a log.
type LogQuery struct {
	// Lines is how many lines of the past are shown, the last ones.
	Lines int
	// Since leaves out earlier lines; nothing when zero. A line has the time that it begins with, or that
	// of the line before.
	Since time.Time
	// Follow goes on with what is appended, until the context ends.
	Follow bool
}

// ShowLog writes a log.
func ShowLog(ctx context.Context, out io.Writer, open func() (*os.File, error), q LogQuery) error {
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
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	all = linesSince(all, q.Since)
	for _, line := range all[max(0, len(all)-q.Lines):] {
		if _, err := io.WriteString(out, line); err != nil {
			return err
		}
	}
	if !q.Follow {
		return nil
	}
	return followLog(ctx, out, open, int64(len(data)))
}

// linesSince are the lines from the first one of that time on: clocks that are set back hide nothing.
func linesSince(lines []string, since time.Time) []string {
	if since.IsZero() {
		return lines
	}
	for i, line := range lines {
		if at, known := lineTime(line, since); known && !at.Before(since) {
			return lines[i:]
		}
	}
	return nil
}

// A line of a service begins with its time: of slog and containerd after time=, of klog without its year.
var (
	fieldTime = regexp.MustCompile(`^time="?([0-9TZ:.+-]+)`)
	klogTime  = regexp.MustCompile(`^[IWEF](\d{4} \d\d:\d\d:\d\d\.\d+)`)
)

// lineTime is when a line was written. The year of one that has none is that of near, or the next to it.
func lineTime(line string, near time.Time) (time.Time, bool) {
	if m := fieldTime.FindStringSubmatch(line); m != nil {
		at, err := time.Parse(time.RFC3339, m[1])
		return at, err == nil
	}
	m := klogTime.FindStringSubmatch(line)
	if m == nil {
		return time.Time{}, false
	}
	near = near.Local()
	best := time.Time{}
	for year := near.Year() - 1; year <= near.Year()+1; year++ {
		at, err := time.ParseInLocation("2006 0102 15:04:05", fmt.Sprintf("%d %s", year, m[1]), time.Local)
		if err == nil && (best.IsZero() || at.Sub(near).Abs() < best.Sub(near).Abs()) {
			best = at
		}
	}
	return best, !best.IsZero()
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

// Journalctl does on a local host what slipway-agent has journalctl do, with the files of its services.
func Journalctl(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("journalctl", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	unit, lines := flags.String("unit", "", ""), flags.Int("lines", 10, "")
	kernel, follow := flags.Bool("dmesg", false, ""), flags.Bool("follow", false, "")
	since := time.Time{}
	flags.Func("since", "", func(text string) error {
		seconds, err := strconv.ParseInt(strings.TrimPrefix(text, "@"), 10, 64)
		since = time.Unix(seconds, 0)
		return err
	})
	flags.String("output", "", "")
	for _, ignored := range []string{"no-pager", "quiet"} {
		flags.Bool(ignored, false, "")
	}
	switch err := flags.Parse(args); {
	case err != nil:
		return err
	case *kernel:
		return ErrNoKernelLog
	case *unit == "" || *unit != filepath.Base(*unit) || flags.NArg() > 0:
		return errors.New("want --unit")
	}
	return ShowLog(ctx, out, func() (*os.File, error) { return os.Open(filepath.Join("/var/log", *unit+".log")) }, LogQuery{Lines: *lines, Since: since, Follow: *follow})
}

// ErrNoKernelLog is the log of the kernel of a local host.
var ErrNoKernelLog = errors.New("a local host has no kernel of its own")
