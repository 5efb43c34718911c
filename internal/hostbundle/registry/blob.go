package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// Blob downloads content, from where an earlier attempt ended. progress gets the size so far; it may
// be nil. When a server sends something else than the digest says, the download is repeated once
// from the start, as the part of an earlier attempt may have been damaged.
func (r *server) Blob(ctx context.Context, s hostbundle.Staging, d ocispec.Descriptor, progress func(have, size int64)) error {
	if s.Has(d) {
		return nil
	}
	r.busy = 0
	most := s.Have(d) // what comes for a second time is no progress
	var damaged bool
	return r.patiently(ctx, func(ctx context.Context) error {
		begun := s.Have(d)
		err := r.fetch(ctx, s, d, progress)
		var own *hostbundle.Error
		switch have := s.Have(d); {
		case err == nil || ctx.Err() != nil:
			return err
		case errors.As(err, &own) && begun > 0 && !damaged:
			damaged, most = true, 0
			return &againError{err: err, progress: true}
		case have-most >= piece(d):
			most = have
			return &againError{err: err, progress: true}
		}
		return err
	})
}

// fetch downloads the rest of a blob by one request.
func (r *server) fetch(ctx context.Context, s hostbundle.Staging, d ocispec.Descriptor, progress func(have, size int64)) error {
	f, offset, err := s.Part(d)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if offset < d.Size {
		if err := r.append(ctx, f, offset, d, progress); err != nil {
			return err
		}
	}
	if err := s.Complete(d, f); err != nil {
		return fmt.Errorf("%s: %w", r, err)
	}
	return nil
}

// append requests the content behind the offset, and writes it there.
func (r *server) append(ctx context.Context, f *os.File, offset int64, d ocispec.Descriptor, progress func(have, size int64)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	came, restart, stop := atLeastRate(func(why error) { cancel(why) })
	defer stop()
	response, err := r.request(ctx, offset, d)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return &againError{err: cause}
		}
		return err
	}
	defer func() { _ = response.Body.Close() }()
	restart()
	if response.StatusCode == http.StatusOK && offset > 0 {
		// It knows no ranges.
		if offset, err = 0, f.Truncate(0); err != nil {
			return err
		}
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	body := &told{Reader: io.LimitReader(response.Body, d.Size-offset), each: func(n int) {
		came(n)
		if offset += int64(n); progress != nil {
			progress(offset, d.Size)
		}
	}}
	if _, err := io.Copy(f, body); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return body.explain(err)
	}
	if offset < d.Size {
		return &againError{err: fmt.Errorf("%s: the connection was cut after %d of %d bytes", r, offset, d.Size)}
	}
	return nil
}

func (r *server) request(ctx context.Context, offset int64, d ocispec.Descriptor) (*http.Response, error) {
	ctx, address := r.locate(ctx, d)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	// the digest is of what is sent, so nobody shall compress it on the way
	request.Header.Set("Accept-Encoding", "identity")
	if offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	var from, to, size int64
	switch response.StatusCode {
	case http.StatusOK:
		return response, nil
	case http.StatusPartialContent:
		if n, _ := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &size); n >= 2 && from == offset {
			return response, nil
		}
		err = fmt.Errorf("%s: asked for what follows byte %d, was sent %q", r, offset, response.Header.Get("Content-Range"))
	default:
		err = answered(response)
	}
	return nil, errors.Join(err, response.Body.Close())
}

// told tells of each piece that is read, and keeps an error of the network apart from one
// of the disk.
type told struct {
	io.Reader
	each func(n int)
	err  error
}

func (t *told) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if n > 0 {
		t.each(n)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		t.err = err
	}
	return n, err
}

func (t *told) explain(err error) error {
	if t.err == nil {
		return err // of the disk
	}
	return &againError{err: err}
}
