package up

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/templates"
)

// Namespace that local hosts enroll into, and the default cluster lives in.
const Namespace = localhost.Namespace

// spareHosts are booted besides those the cluster needs, so that it can be scaled.
const spareHosts = 1

// Options are what the user chose.
type Options struct {
	// Hosts is how many local hosts there shall be; 0 means what the cluster
	// file needs and one spare.
	Hosts int
	// File is the cluster file as parsed; nil without a cluster.
	File *File
	// KeepExisting leaves objects of the file alone that are there already: set
	// for the default file, since the user may have scaled its cluster.
	KeepExisting bool
	// ForceConflicts applies objects also where others have changed them since.
	ForceConflicts bool
	// Version of Kubernetes for the default cluster; empty takes the newest that
	// the hosts offer. Only a default file goes by it.
	Version string
	// Timeout is how long Run may take; 0 means as long as it takes.
	Timeout time.Duration
	// NoHosts adds no local hosts; those of an earlier run stay. A plane beside another
	// never has any.
	NoHosts bool
}

// DefaultFile is the cluster file of a plain `slipway up`.
func DefaultFile() (*File, error) {
	data, err := templates.Local.ReadFile("local/cluster.yaml")
	if err != nil {
		return nil, err
	}
	return Parse("default cluster", data)
}

// NotEnoughHostsError says that the clusters ask for more hosts than there may be.
type NotEnoughHostsError struct {
	File       string
	Need, Have int
}

func (e *NotEnoughHostsError) Error() string {
	if e.Have == 0 {
		return fmt.Sprintf("%s asks for %d hosts, --hosts allows none: raise --hosts, or bring up a plane alone with --no-cluster", e.File, e.Need)
	}
	return fmt.Sprintf("%s asks for %d hosts, --hosts allows %d: raise --hosts or lower the replicas", e.File, e.Need, e.Have)
}

// UnknownVersionError says that the hosts do not offer the wanted Kubernetes.
type UnknownVersionError struct {
	Version string
	Offered []string
}

func (e *UnknownVersionError) Error() string {
	return fmt.Sprintf("--kubernetes-version: the node bundle of local hosts does not hold %s; choose one of %s, or build it in the source tree: make bundle KUBERNETES=%s",
		e.Version, strings.Join(e.Offered, ", "), e.Version)
}

// chooseVersion settles the default cluster's version, and refuses a file whose
// clusters want another than the hosts offer (from old to new). The default is that
// of the file, which is the plane's own version, or the newest.
func (o *Options) chooseVersion(offered []string) error {
	if o.Version != "" && !slices.Contains(offered, o.Version) {
		return &UnknownVersionError{o.Version, offered}
	}
	if o.File == nil {
		return nil
	}
	if o.KeepExisting {
		version := o.Version
		if version == "" && o.File.CheckVersions(offered) != nil {
			version = offered[len(offered)-1]
		}
		if version != "" {
			if err := o.File.SetVersion(version); err != nil {
				return err
			}
		}
	}
	return o.File.CheckVersions(offered)
}

// Complete fills in the defaults and refuses what cannot be met.
func (o *Options) Complete() error {
	need := 0
	if o.File != nil {
		need = o.File.Hosts()
	}
	if o.Hosts == 0 && !o.NoHosts {
		o.Hosts = need + spareHosts
	}
	if need > o.Hosts {
		return &NotEnoughHostsError{o.File.Name, need, o.Hosts}
	}
	if o.NoHosts {
		return nil
	}
	if _, err := localhost.IPOf(o.Hosts); err != nil {
		return fmt.Errorf("%d hosts are too many for one machine: %w", o.Hosts, err)
	}
	return nil
}
