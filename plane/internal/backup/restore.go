package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"filippo.io/age"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/plane/internal/etcd"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/kube"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// keptConfig is in the directory of a restore: the settings that the plane will have.
const keptConfig = "kept.json"

// ExistsError says that there is a plane where one shall be restored.
type ExistsError struct {
	// Dir is its state directory.
	Dir string
	// Name of the plane.
	Name string
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("plane %s exists in %s: restore into another --state-dir, or stop it and give --replace, which keeps its data beside", e.Name, e.Dir)
}

// Source is a backup, and what opens it.
type Source struct {
	// Path of the file.
	Path string
	// Identities of which one opens it.
	Identities []age.Identity
	// Kubernetes is the version of the API server that will read it.
	Kubernetes string
	// Progress is told what is being done.
	Progress func(format string, arguments ...any)
}

// Verify reads a backup as a restore does, in a directory of its own, and has a real etcd open what is in it.
func Verify(ctx context.Context, s Source) (m *Manifest, err error) {
	dir, err := os.MkdirTemp("", "slipway-backup-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return s.unpack(ctx, dir)
}

// unpack makes etcd's directory and the other files below dir.
func (s Source) unpack(ctx context.Context, dir string) (*Manifest, error) {
	r, err := open(s.Path, s.Identities)
	if err != nil {
		return nil, err
	}
	defer r.file.Close()
	if err := s.checkVersion(r.Manifest); err != nil {
		return nil, err
	}
	s.Progress("decrypting")
	if err := r.extract(dir); err != nil {
		return nil, err
	}
	s.Progress("restoring etcd")
	snapshot, restored := filepath.Join(dir, snapshotName), filepath.Join(dir, "etcd")
	if err := etcd.Restore(snapshot, restored); err != nil {
		return nil, r.damaged("%v", err)
	}
	if err := os.Remove(snapshot); err != nil {
		return nil, err
	}
	s.Progress("opening it")
	content, err := read(ctx, restored, filepath.Join(dir, "encryption", kube.EncryptionConfigFile))
	if err != nil {
		return nil, err
	}
	if content != r.Content {
		return nil, r.damaged("it holds %+v, and %+v was backed up", content, r.Content)
	}
	return &r.Manifest, nil
}

// checkVersion refuses what an older API server might not know the form of.
func (s Source) checkVersion(m Manifest) error {
	theirs, err := version.ParseGeneric(m.Kubernetes)
	if err != nil {
		return &DamagedError{Path: s.Path, What: fmt.Sprintf("it is of Kubernetes %q", m.Kubernetes)}
	}
	ours, err := version.ParseGeneric(s.Kubernetes)
	if err != nil {
		return err
	}
	if theirs.Major() != ours.Major() || theirs.Minor() > ours.Minor() {
		return fmt.Errorf("%s is of slipway %s with Kubernetes %s, and this slipway has %s: use that version, or a newer one", s.Path, m.Slipway, m.Kubernetes, s.Kubernetes)
	}
	return nil
}

// Restore makes the plane of a backup in the directory dir. With replace there may be the same plane, which must be stopped:
// its data is kept in the directory that Restore returns, below dir. Interrupted at any point, it can be called again.
func Restore(ctx context.Context, s Source, dir string, replace bool) (m *Manifest, kept string, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, "", err
	}
	existing, err := s.target(dir, replace)
	if err != nil {
		return nil, "", err
	}
	work := filepath.Join(dir, instance.RestoreDir)
	if err := os.MkdirAll(work, 0o700); err != nil {
		return nil, "", err
	}
	unlock, err := durable.TryLock(work)
	if err != nil {
		return nil, "", fmt.Errorf("another restore is at work in %s: wait for it to end", dir)
	}
	defer unlock()
	if err := empty(work, keptConfig); err != nil {
		return nil, "", err
	}
	m, err = s.unpack(ctx, work)
	if err == nil && existing != nil {
		err = samePlane(existing, *m)
	}
	if err == nil {
		err = sync(work)
	}
	if err != nil {
		return nil, "", errors.Join(err, giveUp(work))
	}
	kept, err = swap(dir, work)
	return m, kept, err
}

// giveUp leaves the directory as it was found.
func giveUp(work string) error {
	if _, err := os.Lstat(filepath.Join(work, keptConfig)); errors.Is(err, fs.ErrNotExist) {
		return durable.RemoveAll(work)
	}
	return empty(work, keptConfig)
}

// sync brings a tree to the disk: etcd's library does not sync all that it makes.
func sync(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return durable.SyncDir(path)
	})
}

// target returns the plane to replace, nil for none, and prepares the directory of one that is to be.
func (s Source) target(dir string, replace bool) (*instance.Instance, error) {
	existing, err := instance.Open(dir)
	if errors.Is(err, instance.ErrNone) {
		if _, interrupted := os.Stat(filepath.Join(dir, instance.RestoreDir)); interrupted == nil {
			return nil, nil
		}
		_, err = instance.Prepare(dir)
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	if !replace {
		return nil, &ExistsError{Dir: dir, Name: existing.Name}
	}
	_, running, err := statedir.Running(dir)
	if running {
		err = fmt.Errorf("plane %s serves %s: stop it first, by `slipway down`", existing.Name, dir)
	}
	return existing, err
}

// samePlane refuses a backup of another plane: its hosts and clusters trust another authority.
func samePlane(existing *instance.Instance, m Manifest) error {
	const name = "pki/ca.crt"
	file, err := describe(name, existing.Path(filepath.FromSlash(name)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range m.Files {
		if f.Name == name && f.SHA256 == file.SHA256 {
			return nil
		}
	}
	return fmt.Errorf("the backup is of a plane %s with another certificate authority than the one in %s: restore it into another --state-dir", m.Name, existing.Dir)
}

// swap puts what is in work in its place, and keeps what was there. First the directory ceases to be a plane's,
// and last it becomes one again.
func swap(dir, work string) (kept string, err error) {
	config, next := filepath.Join(dir, configName), filepath.Join(work, keptConfig)
	// The settings of a plane that is replaced stay.
	for _, from := range []string{config, filepath.Join(work, configName)} {
		if _, err := os.Lstat(next); err == nil {
			break
		}
		if err := durable.Rename(from, next); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	for _, name := range append([]string{"etcd"}, directories...) {
		at := filepath.Join(dir, name)
		if _, err := os.Lstat(at); err == nil {
			if kept == "" {
				if kept, err = os.MkdirTemp(dir, "replaced-"+time.Now().UTC().Format(times)+"-"); err != nil {
					return "", err
				}
			}
			if err := durable.Rename(at, filepath.Join(kept, name)); err != nil {
				return kept, err
			}
		}
		if err := durable.Rename(filepath.Join(work, name), at); err != nil {
			return kept, err
		}
	}
	if err := durable.Rename(next, config); err != nil {
		return kept, err
	}
	return kept, durable.RemoveAll(work)
}
