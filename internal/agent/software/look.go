package software

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/opencontainers/go-digest"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// look finds what is at the paths of entries. A later entry of the same path says how.
func look(root hostfs.Root, entries []Entry) (map[string]Entry, error) {
	found := map[string]Entry{}
	for _, e := range entries {
		there, err := lookAt(root, e)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue // below a file; what that is, the entry above it tells
		}
		if err != nil {
			return nil, err
		}
		found[e.Path] = there
	}
	return found, nil
}

func lookAt(root hostfs.Root, e Entry) (Entry, error) {
	path := root.Path(e.Path)
	info, err := os.Lstat(path)
	if err != nil {
		return Entry{}, err
	}
	if e.Kind == KindDirectory && root == "" && info.Mode()&fs.ModeSymlink != 0 {
		// /opt and /usr/local are links on some systems; below another root they could lead out of it
		if info, err = os.Stat(path); err != nil {
			return Entry{}, err
		}
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		return Entry{Path: e.Path, Kind: KindLink, Target: to}, err
	case info.Mode().IsRegular():
		d, err := digestOf(path)
		return Entry{Path: e.Path, Kind: KindFile, Digest: d}, err
	case info.IsDir() && e.Kind == KindState:
		return Entry{Path: e.Path, Kind: KindState}, nil
	case info.IsDir() && e.Kind == KindComponent:
		whole, err := intact(path, e.component)
		if err != nil || !whole {
			return Entry{Path: e.Path, Kind: KindComponent}, err
		}
		return Entry{Path: e.Path, Kind: KindComponent, Digest: e.Digest}, nil
	case info.IsDir():
		return Entry{Path: e.Path, Kind: KindDirectory}, nil
	}
	return Entry{Path: e.Path, Kind: Kind(info.Mode().Type().String())}, nil
}

func digestOf(path string) (digest.Digest, error) {
	f, err := hostfs.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	return digest.SHA256.FromReader(f)
}

// intact compares the files of a component with what the bundle says of them. One that
// is only recorded has no list: it is about to be removed.
func intact(dir string, c hostbundle.Component) (bool, error) {
	for _, want := range c.Files {
		f, err := hostfs.Open(filepath.Join(dir, want.Path))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		whole, err := want.Check(f)
		if err = errors.Join(err, f.Close()); err != nil || !whole {
			return false, err
		}
	}
	return true, nil
}
