package hostlog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
)

// Query is what is read.
type Query struct {
	Unit infrav1.HostLogUnit
	// Since excludes earlier lines.
	Since time.Time
	// Lines is how many lines of the past are read, the last ones.
	Lines int32
	// Follow reads on until the context ends.
	Follow bool
}

const (
	// readLine is how many bytes of a line are read: more than are answered, so that what is at the
	// end of those is seen as a whole.
	readLine = maxLine + 1<<10
	// maxComplaint is how many bytes of what journalctl complains of are reported.
	maxComplaint = 512
)

// programs has the arguments that select the log of each unit.
var programs = map[infrav1.HostLogUnit]string{
	infrav1.HostLogAgent: "--unit=slipway-agent", infrav1.HostLogContainerd: "--unit=containerd",
	infrav1.HostLogKernel: "--dmesg", infrav1.HostLogKubelet: "--unit=kubelet",
}

// Journal reads the journal of systemd, by journalctl.
func Journal(ctx context.Context, q Query, each func(line []byte, more int)) error {
	// It has no mark of an operation, which would end it.
	system := command.System{}
	selection, known := programs[q.Unit]
	switch {
	case !known:
		return fmt.Errorf("the agent does not know the log of %s", q.Unit)
	case !system.Has("journalctl"):
		return errors.New("the host has no journalctl, by which its agent reads logs")
	}
	arguments := []string{"--no-pager", "--quiet", "--output=short-iso", selection, fmt.Sprintf("--lines=%d", q.Lines), fmt.Sprintf("--since=@%d", q.Since.Unix())}
	if q.Follow {
		arguments = append(arguments, "--follow")
	}
	cmd := system.Command(ctx, "journalctl", arguments...)
	complaint := &head{}
	cmd.Stderr = complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = errors.Join(readLines(out, each), command.Exit("journalctl", cmd.Wait()))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && complaint.Len() > 0 {
		first, _, _ := strings.Cut(complaint.String(), "\n")
		err = fmt.Errorf("%w: %s", err, visible(first))
	}
	return err
}

// readLines calls each with every line; more is how many bytes of a long one were cut.
func readLines(from io.Reader, each func(line []byte, more int)) error {
	reader := bufio.NewReaderSize(from, readLine)
	for {
		line, err := reader.ReadSlice('\n')
		more := 0
		if errors.Is(err, bufio.ErrBufferFull) {
			line = bytes.Clone(line)
			for errors.Is(err, bufio.ErrBufferFull) {
				var rest []byte
				rest, err = reader.ReadSlice('\n')
				more += len(bytes.TrimRight(rest, "\n"))
			}
		}
		if len(line) > 0 {
			each(line, more)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// head keeps the begin of what is written.
type head struct{ bytes.Buffer }

func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), maxComplaint-h.Len())])
	return len(p), nil
}
