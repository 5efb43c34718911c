package providercheck

import (
	"context"
	"path/filepath"
	"time"
)

// Load reads <label>/<version> as it is in a repository of clusterctl. A file that cannot
// be parsed becomes a finding; an error is returned when the directory cannot be read or
// is no release at all.
func Load(dir string) (*Release, error) {
	dir, files, err := readDir(dir)
	if err != nil {
		return nil, err
	}
	return newRelease(context.Background(), dir, filepath.Base(filepath.Dir(dir)), filepath.Base(dir), files)
}

// At makes now the time of the check.
func (r *Release) At(now time.Time) { r.now = now }

// LookUp asks a release what rules ask it for each of its objects.
func (r *Release) LookUp() {
	r.namespaced(r.Components[0].Objects[0])
	r.targetNamespace("a")
	r.find("Service", "a")
	r.crds()
}
