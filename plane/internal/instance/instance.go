package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"
)

// Defaults of a plane.
const (
	// DefaultStateDir is where a plane keeps everything.
	DefaultStateDir = "/var/lib/slipway"
	// DefaultName is the name of its network namespace and cgroups.
	DefaultName = "slipway"
	// DefaultAPIPort is the port of its API server on 127.0.0.1.
	DefaultAPIPort = 36443
)

// ErrNone means that the state directory holds no plane.
var ErrNone = errors.New("no plane here: run `slipway up` first, or name its directory with --state-dir")

// ErrLocked means that another command works on the same state directory.
var ErrLocked = errors.New("another slipway command works on this plane; wait for it to end")

// Config is what was chosen when the plane was made.
type Config struct {
	// Name of the network namespace and of the cgroup parent.
	Name string `json:"name"`
	// APIPort on 127.0.0.1 of the machine.
	APIPort int `json:"apiPort"`
	// Fast gives up fsync: for throw-away planes.
	Fast bool `json:"fast,omitempty"`
	// Bundle is the directory of the node bundle.
	Bundle string `json:"bundle"`
}

// The name becomes a cgroup, a network namespace and part of interface names.
var validName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

// Validate says which field is wrong and what it may be.
func (c Config) Validate() error {
	if !validName.MatchString(c.Name) {
		return fmt.Errorf("--name %q: want a lower-case letter, then up to 30 letters, digits or dashes", c.Name)
	}
	if c.APIPort < 1 || c.APIPort > 65535 {
		return fmt.Errorf("--api-port %d: want 1 to 65535", c.APIPort)
	}
	return nil
}

// Instance is a plane's state directory.
type Instance struct {
	// Dir is the state directory.
	Dir string
	Config
}

// Open reads the plane of a state directory; ErrNone when there is none.
func Open(dir string) (*Instance, error) {
	data, err := os.ReadFile(filepath.Join(dir, "instance.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNone)
	}
	if err != nil {
		return nil, err
	}
	i := &Instance{Dir: dir}
	if err := json.Unmarshal(data, &i.Config); err != nil {
		return nil, fmt.Errorf("%s: %w; remove the directory to start anew", filepath.Join(dir, "instance.json"), err)
	}
	return i, nil
}

// Create makes a state directory, or opens the one there is. What was chosen
// when it was made stays, but for the bundle, which may have moved.
func Create(dir string, c Config) (*Instance, error) {
	if existing, err := Open(dir); err == nil {
		existing.Bundle = c.Bundle
		return existing, existing.save()
	} else if !errors.Is(err, ErrNone) {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// `down --purge` removes the directory, so it must be ours alone.
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		return nil, errors.Join(err, fmt.Errorf("--state-dir %s is not empty and holds no plane; choose a new directory", dir))
	}
	i := &Instance{Dir: dir, Config: c}
	return i, i.save()
}

func (i *Instance) save() error {
	data, err := json.MarshalIndent(i.Config, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(i.Path("instance.json"), append(data, '\n'), 0o600)
}

// Path of a file of the plane.
func (i *Instance) Path(elem ...string) string {
	return filepath.Join(append([]string{i.Dir}, elem...)...)
}

// Kubeconfig is the path of the admin kubeconfig of the plane.
func (i *Instance) Kubeconfig() string { return i.Path("kubeconfig") }

// PlaneLog is the path of the plane's log.
func (i *Instance) PlaneLog() string { return i.Path("plane.log") }

// Lock keeps other commands that change the plane out until unlock is called.
// The kernel lets go of it when the process dies.
func (i *Instance) Lock() (unlock func(), err error) {
	f, err := os.OpenFile(i.Path("command.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// WriteFile replaces a file so that after a power cut either the old or the new
// content is there, never a part of it.
func WriteFile(path string, data []byte, mode os.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tmp-"+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // gone after the rename
	if err := errors.Join(tmp.Chmod(mode), write(tmp, data)); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func write(f *os.File, data []byte) error {
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(f.Sync(), f.Close())
}
