// Package powercut cuts the power of a machine that is a directory, at one change of its disk
// after the other.
package powercut

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/slipway-dev/slipway/internal/durable"
)

// ErrCut is what a change meets at a power cut and after it.
var ErrCut = errors.New("the power was cut")

// Machine is a directory whose changes through internal/durable are counted, and cut off.
type Machine struct {
	// Changes are those that were tried, with the names of their files, until the power is back.
	Changes []string
	dir     string
	cut     bool
	restore func()
}

// At cuts the power of everything below dir at the n-th change: that one and all later ones
// fail, so that nothing tidies up. A file that is being written is torn, a directory that is
// being removed loses half of its files. At 0, the changes are only counted. The power is back
// with On, or when the test ends.
func At(t testing.TB, dir string, n int) *Machine {
	t.Helper()
	m := &Machine{dir: dir}
	m.restore = durable.Intercept(dir, func(effect durable.Effect, path string) error {
		m.Changes = append(m.Changes, string(effect)+" "+filepath.Base(path))
		if n == 0 || len(m.Changes) < n {
			return nil
		}
		if !m.cut {
			m.cut = true
			if err := half(effect, path); err != nil {
				t.Error(err)
			}
		}
		return ErrCut
	})
	t.Cleanup(m.On)
	return m
}

// Cut says whether the power was cut.
func (m *Machine) Cut() bool { return m.cut }

// On brings the power back.
func (m *Machine) On() { m.restore() }

// half does what is done of a change at a power cut.
func half(effect durable.Effect, path string) error {
	switch effect {
	case durable.Sync:
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, info.Size()/2)
	case durable.DeleteAll:
		var files []string
		err := filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				files = append(files, path)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, file := range files[:(len(files)+1)/2] {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	case durable.Create, durable.Move, durable.Delete:
	}
	return nil
}
