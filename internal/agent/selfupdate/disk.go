package selfupdate

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// disk changes the host. What it returns from is on the disk.
type disk struct {
	// before is asked ahead of each change, for tests. May be nil.
	before func(effect, path string) error
}

func (d disk) ask(effect, path string) error {
	if d.before == nil {
		return nil
	}
	return d.before(effect, path)
}

func (d disk) save(stateDir string, r Record) error {
	path := filepath.Join(stateDir, recordFile)
	if err := d.ask("save", path); err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return durable.Write(path, data, 0o600)
}

func (d disk) removeRecord(stateDir string) error {
	return d.remove(filepath.Join(stateDir, recordFile))
}

func (d disk) remove(path string) error {
	if err := d.ask("remove", path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

func (d disk) removeStaging(stateDir string) error {
	s := staging(stateDir)
	if err := d.ask("remove", s.Dir); err != nil {
		return err
	}
	return s.Remove()
}

func staging(stateDir string) hostbundle.Staging {
	return hostbundle.Staging{Dir: filepath.Join(stateDir, stagingDir)}
}

// program writes one that can be executed.
func (d disk) program(path string, content io.Reader) error {
	if err := d.remove(path); err != nil {
		return err
	}
	if err := d.ask("write", path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = d.ask("sync", path)
	}
	if err == nil {
		err = errors.Join(f.Chmod(0o755), f.Sync())
	}
	return errors.Join(err, f.Close())
}

func (d disk) rename(from, to string) error {
	if err := d.ask("rename", to); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(to))
}
