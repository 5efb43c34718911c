package bundleserver

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// shelf is what a directory of bundles holds now. Its index is looked at with each request,
// and read when it is another file: `slipway bundle load` needs to tell nobody.
type shelf struct {
	dir string
	log logr.Logger

	mu        sync.Mutex
	read      os.FileInfo
	directory *hostbundle.Directory
	listed    hostbundle.Catalog
}

// catalog is empty where there is no directory.
func (s *shelf) catalog() (hostbundle.Catalog, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := os.Stat(filepath.Join(s.dir, ocispec.ImageIndexFile))
	if errors.Is(err, fs.ErrNotExist) {
		s.read, s.directory, s.listed = nil, nil, hostbundle.Catalog{}
		return s.listed, nil
	}
	if err != nil {
		return hostbundle.Catalog{}, err
	}
	if s.read != nil && os.SameFile(s.read, info) && s.read.ModTime().Equal(info.ModTime()) {
		return s.listed, nil
	}
	directory, err := hostbundle.OpenDirectory(s.dir)
	if err != nil {
		return hostbundle.Catalog{}, err
	}
	listed, err := directory.Catalog()
	if err != nil {
		s.log.Error(err, "Some host bundles cannot be served; load them again with slipway bundle load")
	}
	s.read, s.directory, s.listed = info, directory, listed
	return listed, nil
}

func (s *shelf) open(of digest.Digest) (*os.File, error) {
	s.mu.Lock()
	directory := s.directory
	s.mu.Unlock()
	if directory == nil {
		return nil, fs.ErrNotExist
	}
	return directory.OpenBlob(of)
}
