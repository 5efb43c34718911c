package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/hostbundle/registry"
)

// Fetcher reads upstream's files. What it keeps has its digest; a download that was interrupted
// continues where it was.
type Fetcher struct {
	// Cache keeps content by its digest, and interrupted downloads.
	Cache string
	// Mirrors are addresses below which upstream's files are at HOST/PATH. They are tried in order,
	// before upstream.
	Mirrors []string
	// From is a directory with the same layout. If it is set, nothing is downloaded.
	From string
	// CAFile and ConfigFile are those of registry.Options.
	CAFile, ConfigFile string
	// Progress is told how much there is of a file, in bytes. May be nil.
	Progress func(url string, have, size int64)
}

// Get returns the file that has the content.
func (f *Fetcher) Get(ctx context.Context, c Content) (string, error) {
	d := ocispec.Descriptor{Digest: c.Digest, Size: c.Size}
	s := hostbundle.Staging{Dir: f.Cache}
	file := f.cached(c.Digest)
	if s.Has(d) {
		return file, nil
	}
	if f.From != "" {
		return file, f.copy(s, c, d)
	}
	progress := func(have, size int64) {
		if f.Progress != nil {
			f.Progress(c.URL, have, size)
		}
	}
	err := f.each(c.URL, c.Path, func(o registry.Options, upstream bool) error {
		if upstream && c.repository != "" {
			o.Address = registry.Scheme + c.repository
			r, err := registry.New(o)
			if err != nil {
				return err
			}
			return r.Blob(ctx, s, d, progress)
		}
		r, err := registry.NewFile(o)
		if err != nil {
			return err
		}
		return r.Get(ctx, s, d, progress)
	})
	return file, f.explain(c, err)
}

// cached is where content is once it was compared with its digest.
func (f *Fetcher) cached(of digest.Digest) string {
	return filepath.Join(f.Cache, ocispec.ImageBlobsDir, of.Algorithm().String(), of.Encoded())
}

// forget removes content that was refused after all.
func (f *Fetcher) forget(of digest.Digest) error { return os.Remove(f.cached(of)) }

// explain adds what to do.
func (f *Fetcher) explain(c Content, err error) error {
	var own *hostbundle.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &own):
	case own.Reason == hostbundle.ReasonCorrupt:
		return fmt.Errorf("%s: want %d bytes with the digest %s: %w; nothing of it was kept. Somebody changed the mirror, the directory or the lock: "+
			"fetch the file from elsewhere, or write the lock again", c.URL, c.Size, c.Digest, err)
	case own.Reason == hostbundle.ReasonUnreachable:
		return fmt.Errorf("%s: %w; repair the network, or name another --mirror, and run the same command again: it continues where it was", c.URL, err)
	case own.Reason == hostbundle.ReasonNotFound:
		return fmt.Errorf("%s: %w; does this version exist, and does the mirror have the file as %s?", c.URL, err, c.Path)
	}
	return fmt.Errorf("%s: %w", c.URL, err)
}

// each tries the mirrors of a file, then upstream.
func (f *Fetcher) each(url, path string, try func(o registry.Options, upstream bool) error) error {
	var errs []error
	for _, mirror := range f.Mirrors {
		err := try(registry.Options{Address: strings.TrimSuffix(mirror, "/") + "/" + path, CAFile: f.CAFile, ConfigFile: f.ConfigFile, Hasty: true}, false)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	err := try(registry.Options{Address: url, CAFile: f.CAFile, ConfigFile: f.ConfigFile}, true)
	if err == nil {
		return nil
	}
	return errors.Join(append(errs, err)...)
}

// copy reads from the directory.
func (f *Fetcher) copy(s hostbundle.Staging, c Content, d ocispec.Descriptor) error {
	source, err := os.Open(filepath.Join(f.From, filepath.FromSlash(c.Path)))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is not in the directory: %w; fetch it from %s, as slipway-bundle lock --urls prints", c.Path, err, c.URL)
	}
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	part, _, err := s.Part(d)
	if err != nil {
		return err
	}
	defer func() { _ = part.Close() }()
	if err := part.Truncate(0); err != nil {
		return err
	}
	if _, err := part.Seek(0, io.SeekStart); err != nil {
		return err
	}
	// one byte more than wanted is enough to see that it is another file
	if _, err := io.Copy(part, io.LimitReader(source, d.Size+1)); err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return f.explain(c, s.Complete(d, part))
}

// small reads what is not kept, such as a checksum or a signature.
func (f *Fetcher) small(ctx context.Context, url string) (data []byte, err error) {
	err = f.file(url, func(r *registry.File) (err error) {
		data, err = r.Small(ctx, nil)
		return err
	})
	return data, err
}

// size asks for the size of a file.
func (f *Fetcher) size(ctx context.Context, url string) (size int64, err error) {
	err = f.file(url, func(r *registry.File) (err error) {
		size, err = r.Size(ctx)
		return err
	})
	return size, err
}

// file tries the mirrors of a file, then upstream.
func (f *Fetcher) file(url string, do func(*registry.File) error) error {
	path, err := mirrored(url)
	if err != nil {
		return err
	}
	err = f.each(url, path, func(o registry.Options, _ bool) error {
		r, err := registry.NewFile(o)
		if err != nil {
			return err
		}
		return do(r)
	})
	return f.explain(Content{URL: url, Path: path}, err)
}

// repository is a client for the images of a name.
func (f *Fetcher) repository(name string) (*registry.Repository, error) {
	return registry.New(registry.Options{Address: registry.Scheme + name, CAFile: f.CAFile, ConfigFile: f.ConfigFile})
}
