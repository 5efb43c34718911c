package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/version"
	"github.com/slipway-dev/slipway/plane/internal/etcd"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/kube"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// Suffix of the names of backups.
const Suffix = ".slipway-backup"

// workDir holds what is not encrypted yet, within the state directory. A command that was killed leaves it to
// the next one. Its name is short, since a socket of etcd is in it.
const workDir = ".save"

// BusyError says that another backup of the plane is being made.
type BusyError struct{ err error }

func (e *BusyError) Error() string {
	return "another backup of this plane is being made: wait for it to end"
}

// Unwrap returns why the lock could not be had.
func (e *BusyError) Unwrap() error { return e.err }

// Options say what to back up, and for whom.
type Options struct {
	// Instance is the plane, which must serve.
	Instance *instance.Instance
	// Kubernetes is the version of its API server.
	Kubernetes string
	// To is the directory that the backup is written to. It must exist.
	To string
	// Recipients can open it.
	Recipients []age.Recipient
	// Keep is how many backups of the plane there shall be in To afterwards: the oldest go. Zero keeps all.
	Keep int
	// Progress is told what is being done.
	Progress func(format string, arguments ...any)
}

// Result is a backup that was written.
type Result struct {
	// Path of the file.
	Path string `json:"path"`
	// Size of the file in bytes.
	Size int64 `json:"size"`
	Manifest
}

// Create writes a backup of a plane that serves, and has read it as far as that goes without the key that opens it:
// a real etcd has opened the snapshot and found every Secret to be encrypted with the key that goes with it.
func Create(ctx context.Context, o Options) (*Result, error) {
	if info, err := os.Stat(o.To); err != nil {
		return nil, fmt.Errorf("--to: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("--to %s: want a directory", o.To)
	}
	work := o.Instance.Path(workDir)
	if err := os.MkdirAll(work, 0o700); err != nil {
		return nil, err
	}
	unlock, err := durable.TryLock(work)
	if err != nil {
		return nil, &BusyError{err}
	}
	defer unlock()
	if err := empty(work); err != nil {
		return nil, err
	}
	result, err := create(ctx, o, work)
	return result, errors.Join(err, empty(work))
}

// empty removes all that is in a directory but the entry keep.
func empty(dir string, keep ...string) error {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if !slices.Contains(keep, entry.Name()) {
			err = errors.Join(err, durable.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	return err
}

func create(ctx context.Context, o Options, work string) (*Result, error) {
	m := Manifest{Format: format, Name: o.Instance.Name, Created: time.Now().UTC().Truncate(time.Second), Slipway: version.Version, Kubernetes: o.Kubernetes}
	o.Progress("reading etcd")
	if err := etcd.Save(ctx, o.Instance.Path("etcd"), filepath.Join(work, snapshotName)); err != nil {
		return nil, err
	}
	if err := m.collect(o.Instance, work); err != nil {
		return nil, err
	}
	o.Progress("opening the snapshot")
	restored := filepath.Join(work, "etcd")
	if err := etcd.Restore(filepath.Join(work, snapshotName), restored); err != nil {
		return nil, err
	}
	var err error
	if m.Content, err = read(ctx, restored, o.Instance.Path("encryption", kube.EncryptionConfigFile)); err != nil {
		return nil, err
	}
	o.Progress("encrypting")
	to := filepath.Join(o.To, fmt.Sprintf("%s-%s%s", m.Name, m.Created.Format(times), Suffix))
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s exists: run the command again", to)
	}
	if err := write(to, &m, o.Recipients); err != nil {
		return nil, err
	}
	info, err := os.Stat(to)
	if err != nil {
		return nil, err
	}
	result := &Result{Path: to, Size: info.Size(), Manifest: m}
	if err := statedir.RecordBackup(o.Instance.Dir, statedir.Backup{Created: m.Created, Path: to}); err != nil {
		return result, err
	}
	return result, o.prune()
}

// times are how a backup's name tells when it was made; they sort as such.
const times = "20060102T150405Z"

// prune removes the oldest backups of the plane.
func (o Options) prune() error {
	entries, err := os.ReadDir(o.To)
	if err != nil || o.Keep == 0 {
		return err
	}
	var made []string
	for _, entry := range entries {
		at, named := strings.CutPrefix(strings.TrimSuffix(entry.Name(), Suffix), o.Instance.Name+"-")
		if _, err := time.Parse(times, at); named && err == nil && entry.Type().IsRegular() && strings.HasSuffix(entry.Name(), Suffix) {
			made = append(made, entry.Name())
		}
	}
	for _, name := range made[:max(0, len(made)-o.Keep)] {
		if err := durable.Remove(filepath.Join(o.To, name)); err != nil {
			return fmt.Errorf("--keep: %w", err)
		}
	}
	return nil
}

// collect lists what the backup has: the snapshot, and the plane's files.
func (m *Manifest) collect(inst *instance.Instance, work string) error {
	names := []string{configName}
	for _, dir := range directories {
		err := fs.WalkDir(os.DirFS(inst.Dir), dir, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	file, err := describe(snapshotName, filepath.Join(work, snapshotName))
	if err != nil {
		return err
	}
	m.Files = append(m.Files, file)
	for _, name := range names {
		file, err := describe(name, inst.Path(filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		m.Files = append(m.Files, file)
	}
	return nil
}
