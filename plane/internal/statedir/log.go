package statedir

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"time"
)

// LogName of the log in the state directory of its plane.
const LogName = "plane.log"

const (
	// maxSize of a file in bytes, but for what is written within an interval.
	maxSize = 20 << 20
	// older is how many files are kept beside the newest.
	older = 4
	// interval at which the size is looked at.
	interval = 10 * time.Second
)

// BeginLog returns the log of a plane that is about to start, empty, for appending. The one
// before is kept as the newest of the older ones.
func BeginLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		if err := shift(path); err != nil {
			return nil, err
		}
		if err := os.Rename(path, numbered(path, 1)); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// BoundLog keeps the log from growing beyond what BeginLog starts, until ctx ends. Failures are
// reported, and tried again.
func BoundLog(ctx context.Context, path string, report func(error)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := rotate(path, maxSize); err != nil {
			report(err)
		}
	}
}

// LogFiles are the logs there are, the newest first.
func LogFiles(path string) []string {
	var files []string
	for n := 0; n <= older; n++ {
		if _, err := os.Stat(numbered(path, n)); err == nil {
			files = append(files, numbered(path, n))
		}
	}
	return files
}

// numbered is the nth of the older ones, or the log itself.
func numbered(path string, n int) string {
	if n == 0 {
		return path
	}
	return fmt.Sprintf("%s.%d", path, n)
}

// shift makes room for the first of the older ones, and drops the last.
func shift(path string) error {
	for n := older; n > 1; n-- {
		if err := os.Rename(numbered(path, n-1), numbered(path, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// rotate copies a log that has grown beyond a size away and empties it. It stays the file
// that all have open who write to it, at its end. What is written between the last read and
// Truncate is lost, a line at worst; after a crash in between the copy is there as well.
func rotate(path string, size int64) (err error) {
	log, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // somebody has removed it
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if info, err := log.Stat(); err != nil || info.Size() <= size {
		return err
	}
	partial := path + ".partial"
	kept, err := os.OpenFile(partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	if _, err := io.Copy(kept, log); err != nil {
		return errors.Join(fmt.Errorf("rotate %s: %w", path, err), os.Remove(partial))
	}
	if err := shift(path); err != nil {
		return err
	}
	if err := os.Rename(partial, numbered(path, 1)); err != nil {
		return err
	}
	if _, err := io.Copy(kept, log); err != nil {
		return err
	}
	return log.Truncate(0)
}

// said is a line by which a plane tells why it ends: the error of a command, the first line of what the Go
// runtime or klog's Fatal says of a crash, or what systemd says of a process that was killed.
var said = regexp.MustCompile(`^(Error: |panic: |fatal error: |SIG[A-Z]+: |F[0-9]{4} |.+: Main process exited, code=killed)`)

// maxLine is how much of a line LastWords returns, in bytes.
const maxLine = 1024

// LastWords are the line of a log that tells why the last plane in it ended, and whether that one crashed.
// Of a panic the first line tells; the last ones are functions. Without such a line it is the last one.
func LastWords(log io.Reader) (line string, crashed bool, err error) {
	lines := bufio.NewReaderSize(log, maxLine)
	var last, telling string
	for err == nil {
		var part []byte
		var more bool
		if part, more, err = lines.ReadLine(); len(part) > 0 {
			last = string(part)
		}
		if said.Match(part) {
			telling, crashed = last, !strings.HasPrefix(last, "Error: ")
		}
		for more && err == nil {
			_, more, err = lines.ReadLine()
		}
	}
	if !errors.Is(err, io.EOF) {
		return "", false, err
	}
	return strings.TrimPrefix(cmp.Or(telling, last), "Error: "), crashed, nil
}
