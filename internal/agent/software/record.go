package software

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// recordPath lies in a directory that every Linux host has, so that it can be written
// before and removed after everything else.
const recordPath = "/var/lib/slipway-software.json"

// State of an installed version.
type State string

const (
	// StateInstalling means that an install was begun; the same command goes on with it.
	StateInstalling State = "Installing"
	// StateRemoving means that an uninstall was begun; the same command goes on with it.
	StateRemoving State = "Removing"
	// StateInstalled means that all of it is on the host, and was started.
	StateInstalled State = "Installed"
)

// Release is one version on the host.
type Release struct {
	State State `json:"state"`
	// Digest of the bundle's manifest.
	Digest digest.Digest `json:"digest"`
	// Index is the digest of the bundle's index, which names it for all architectures.
	Index digest.Digest `json:"index"`
	hostbundle.Contents
}

// Kind of an entry.
type Kind string

const (
	// KindDirectory is removed once it is empty.
	KindDirectory Kind = "Directory"
	// KindState is a directory that is removed with everything in it.
	KindState Kind = "State"
	// KindComponent is a component in the store.
	KindComponent Kind = "Component"
	// KindFile is a text file of the bundle.
	KindFile Kind = "File"
	// KindLink is a symbolic link.
	KindLink Kind = "Link"
)

// Entry is one thing that is on the host because of this package, or shall be.
type Entry struct {
	Path string `json:"path"`
	Kind Kind   `json:"kind"`
	// Digest of a file's content, or of a component's layer.
	Digest digest.Digest `json:"digest,omitempty"`
	// Target of a link.
	Target string `json:"target,omitempty"`

	file      hostbundle.HostFile
	component hostbundle.Component
}

func (e Entry) same(other Entry) bool {
	return e.Path == other.Path && e.Kind == other.Kind && e.Digest == other.Digest && e.leadsTo() == other.leadsTo()
}

// leadsTo is where a link leads: systemctl enable writes a whole path where an install has a
// relative one, and who disabled a unit and enabled it again has changed nothing.
func (e Entry) leadsTo() string {
	if e.Target == "" || path.IsAbs(e.Target) {
		return e.Target
	}
	return path.Join(path.Dir(e.Path), e.Target)
}

// Record is what this package knows of the host.
type Record struct {
	// Releases from the first installed to the last.
	Releases []Release `json:"releases"`
	// Entries that are on the host, or were about to be. During a change a path may be
	// there twice, as it was and as it will be.
	Entries []Entry `json:"entries"`
}

func readRecord(root hostfs.Root) (Record, error) {
	data, err := root.ReadFile(recordPath)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, err
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("read %s, the record of what was installed: %w; nothing was changed: restore the file from a backup", recordPath, err)
	}
	return r, nil
}

// with returns the releases with one more, or another one of the same version.
func (r Record) with(release Release) []Release {
	releases := slices.Clone(r.Releases)
	at := slices.IndexFunc(releases, func(other Release) bool { return other.KubernetesVersion == release.KubernetesVersion })
	if at < 0 {
		return append(releases, release)
	}
	releases[at] = release
	return releases
}
