package support

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/slipway-dev/slipway/internal/redact"
)

// Root is the folder of the archive in which everything is.
const Root = "slipway-support"

// errFull means that an archive has all that it may hold.
var errFull = errors.New("the bundle is full")

// archive is a tar.gz of text without secrets.
type archive struct {
	redact *redact.Redactor
	gz     *gzip.Writer
	tar    *tar.Writer
	now    time.Time
	// left is how many bytes it still takes, before compression.
	left int64
}

func newArchive(out io.Writer, now time.Time, limit int64) *archive {
	gz := gzip.NewWriter(out)
	return &archive{redact: &redact.Redactor{}, gz: gz, tar: tar.NewWriter(gz), now: now, left: limit}
}

// add writes one file. This is the only way into the archive.
func (a *archive) add(name, text string) error {
	text = a.redact.Text(text)
	if int64(len(text)) > a.left {
		return fmt.Errorf("%s: %w", name, errFull)
	}
	a.left -= int64(len(text))
	header := &tar.Header{Typeflag: tar.TypeReg, Name: Root + "/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: a.now.Truncate(time.Second), Format: tar.FormatPAX}
	if err := a.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if _, err := io.WriteString(a.tar, text); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func (a *archive) close() error { return errors.Join(a.tar.Close(), a.gz.Close()) }
