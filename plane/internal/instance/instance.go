package instance

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
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

// ConfigFile holds the Config. A directory that has it is a plane's.
const ConfigFile = "instance.json"

// RestoreDir holds a plane that is being restored, within its state directory. While it is there and ConfigFile is
// not, a restore was interrupted. Its name is short, since a socket of etcd is in it.
const RestoreDir = ".new"

// ErrNone means that the state directory holds no plane.
var ErrNone = errors.New("no plane here: run `slipway up` first, or name its directory with --state-dir")

// Config is what was chosen when the plane was made.
type Config struct {
	// Name of the network namespace and of the cgroup parent.
	Name string `json:"name"`
	// APIPort on 127.0.0.1 of the machine.
	APIPort int `json:"apiPort"`
	// Listen is where hosts on other machines reach the API server, ADDRESS[:PORT]; empty
	// for nowhere. TLSNames are names and addresses by which they do besides, separated by
	// commas. See ListensAt.
	Listen   string `json:"listen,omitempty"`
	TLSNames string `json:"tlsNames,omitempty"`
	// Fast gives up fsync: for throw-away planes.
	Fast bool `json:"fast,omitempty"`
	// NoAuditLog turns the audit log of the API server off.
	NoAuditLog bool `json:"noAuditLog,omitempty"`
	// FeatureGates of Cluster API, as in "Name=true,Other=false".
	FeatureGates string `json:"featureGates,omitempty"`
	// LoggingFormat of the plane's log, text or json; text when empty.
	LoggingFormat string `json:"loggingFormat,omitempty"`
	// Bundle is the directory of the node bundle.
	Bundle string `json:"bundle"`
	// Beside is the name of the plane whose network this one joins. Such a plane has
	// no local hosts. Empty for a plane with a network of its own.
	Beside string `json:"beside,omitempty"`
}

// Validate says which field is wrong and what it may be.
func (c Config) Validate() error {
	if err := network.ValidateName(c.Name); err != nil {
		return fmt.Errorf("--name %w", err)
	}
	if c.APIPort < 1 || c.APIPort > 65535 {
		return fmt.Errorf("--api-port %d: want 1 to 65535", c.APIPort)
	}
	if _, err := c.ListensAt(); err != nil {
		return err
	}
	if c.Beside != "" && network.ValidateName(c.Beside) != nil || c.Beside == c.Name {
		return fmt.Errorf("--beside %q: want the --name of another plane on this machine", c.Beside)
	}
	if c.LoggingFormat != "" && c.LoggingFormat != "text" && c.LoggingFormat != "json" {
		return fmt.Errorf("--logging-format %s: want text or json", c.LoggingFormat)
	}
	return nil
}

// Instance is a plane's state directory.
type Instance struct {
	// Dir is the state directory, an absolute path.
	Dir string
	// New is true when this process made it.
	New bool
	Config
}

// Open reads the plane of a state directory; ErrNone when there is none.
func Open(dir string) (*Instance, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(dir, ConfigFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNone)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("a plane exists in %s that only root may use; use sudo: %w", dir, fs.ErrPermission)
	}
	if err != nil {
		return nil, err
	}
	// Commands of root act on what is in it: kubeconfigs and paths of programs.
	if err := statedir.CheckPrivate(dir); err != nil {
		return nil, fmt.Errorf("--state-dir: %w", err)
	}
	i := &Instance{Dir: dir}
	if err := json.Unmarshal(data, &i.Config); err != nil {
		return nil, fmt.Errorf("%s: %w; remove the directory to start anew", filepath.Join(dir, ConfigFile), err)
	}
	return i, nil
}

// Create makes a state directory with c, or opens the one there is as it is.
func Create(dir string, c Config) (*Instance, error) {
	if existing, err := Open(dir); !errors.Is(err, ErrNone) {
		return existing, err
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	dir, err := Prepare(dir)
	if err != nil {
		return nil, err
	}
	i := &Instance{Dir: dir, New: true, Config: c}
	return i, i.save()
}

// Prepare makes the directory of a plane that is to be, and returns its absolute path. It may hold what a crash
// leaves.
func Prepare(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := checkDir(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("--state-dir: %w; choose another directory", err)
	}
	// `down --purge` removes the directory, so it must be ours alone.
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == RestoreDir }) {
		return "", fmt.Errorf("--state-dir %s: a restore in it was interrupted: run `slipway restore` again", dir)
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !leftover(e.Name()) }) {
		return "", fmt.Errorf("--state-dir %s is not empty and holds no plane: choose a new directory", dir)
	}
	if err := statedir.CheckPrivate(dir); err != nil {
		return "", fmt.Errorf("--state-dir: %w", err)
	}
	return dir, nil
}

// Change is what may be chosen anew for a plane that is there. The zero value of
// a field leaves it as it is.
type Change struct {
	Name    string
	APIPort int
	// Listen and TLSNames, when given, are as in Config.
	Listen, TLSNames *string
	// Restart says that the caller starts a plane anew that runs with something else,
	// where that is all it takes: the local hosts go on meanwhile.
	Restart  bool
	Fast     *bool
	AuditLog *bool
	// FeatureGates replace all that were given before.
	FeatureGates *string
	// LoggingFormat is as in Config; empty leaves it.
	LoggingFormat string
	Bundle        string
	Beside        string
}

// Apply makes the change, which must wait for a plane that runs to be down.
func (i *Instance) Apply(c Change, running bool) error {
	next, err := i.Next(c, running)
	if err != nil || next == i.Config {
		return err
	}
	i.Config = next
	return i.save()
}

// Next is what the change makes of the plane, or why it may not be made.
func (i *Instance) Next(c Change, running bool) (Config, error) {
	next := i.Config
	if c.Name != "" && c.Name != i.Name {
		return next, fmt.Errorf("--name %s: the plane in %s has the name %s; leave --name out, or choose another --state-dir", c.Name, i.Dir, i.Name)
	}
	if c.Beside != "" && c.Beside != i.Beside {
		return next, fmt.Errorf("--beside %s: that is chosen once for a plane; choose another --state-dir and --name", c.Beside)
	}
	next.APIPort = cmp.Or(c.APIPort, i.APIPort)
	next.Bundle = cmp.Or(c.Bundle, i.Bundle)
	next.LoggingFormat = cmp.Or(c.LoggingFormat, i.LoggingFormat)
	if c.Fast != nil {
		next.Fast = *c.Fast
	}
	if c.AuditLog != nil {
		next.NoAuditLog = !*c.AuditLog
	}
	if c.FeatureGates != nil {
		next.FeatureGates = *c.FeatureGates
	}
	if c.Listen != nil {
		next.Listen = *c.Listen
	}
	if c.TLSNames != nil {
		next.TLSNames = *c.TLSNames
	} else if next.Listen == "" {
		next.TLSNames = ""
	}
	if running {
		if err := i.refuse(next, c.Restart); err != nil {
			return next, err
		}
	}
	return next, next.Validate()
}

// refuse says which part of the change has to wait until a plane that runs is down.
func (i *Instance) refuse(next Config, restart bool) error {
	switch {
	case next.APIPort != i.APIPort:
		return fmt.Errorf("--api-port %d: the plane runs with port %d; run `slipway down` first", next.APIPort, i.APIPort)
	case next.Fast != i.Fast:
		return fmt.Errorf("--fast=%t: the plane runs with --fast=%t; run `slipway down` first", next.Fast, i.Fast)
	case next.FeatureGates != i.FeatureGates:
		return fmt.Errorf("--feature-gates=%s: the plane runs with --feature-gates=%s; run `slipway down` first", next.FeatureGates, i.FeatureGates)
	case cmp.Or(next.LoggingFormat, "text") != cmp.Or(i.LoggingFormat, "text"):
		return fmt.Errorf("--logging-format %s: the plane logs %s; run `slipway down` first", next.LoggingFormat, cmp.Or(i.LoggingFormat, "text"))
	case next.NoAuditLog != i.NoAuditLog:
		return fmt.Errorf("--audit-log=%t: the plane runs with --audit-log=%t; run `slipway down` first", !next.NoAuditLog, !i.NoAuditLog)
	case !restart && (next.Listen != i.Listen || next.TLSNames != i.TLSNames):
		return fmt.Errorf("--listen=%s --tls-san=%s: the plane runs with --listen=%s --tls-san=%s; `slipway up` changes that", next.Listen, next.TLSNames, i.Listen, i.TLSNames)
	}
	return nil
}

func (i *Instance) save() error {
	data, err := json.MarshalIndent(i.Config, "", "  ")
	if err != nil {
		return err
	}
	return durable.Write(i.Path(ConfigFile), append(data, '\n'), 0o600)
}

// Path of a file of the plane.
func (i *Instance) Path(elem ...string) string {
	return filepath.Join(append([]string{i.Dir}, elem...)...)
}

// Kubeconfig is the path of the admin kubeconfig of the plane.
func (i *Instance) Kubeconfig() string { return i.Path("kubeconfig") }

// HostBundles is the directory of the host bundles that were loaded.
func (i *Instance) HostBundles() string { return i.Path(hostbundle.PlaneStore) }

// PlaneLog is the path of the plane's log.
func (i *Instance) PlaneLog() string { return i.Path(statedir.LogName) }
