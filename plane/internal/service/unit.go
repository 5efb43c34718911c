package service

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"
)

// Env is set for a plane that systemd runs: it starts what was chosen before, and leaves
// `slipway up` at work.
const Env = "SLIPWAY_SERVICE"

// Names of units are these around the name of the plane. They are no names of the agent's
// and the host bundle's units, whatever a plane is called.
const (
	prefix = "slipway-plane-"
	suffix = ".service"
)

// The section that tells units of this package from others; systemd passes over it.
const (
	ownSection  = "X-Slipway"
	stateDirKey = "StateDir"
)

// Unit is the service of one plane.
type Unit struct {
	// Plane is the name of the plane.
	Plane string
	// Program is slipway, and StateDir the plane's state directory; both are absolute.
	Program, StateDir string
	// Beside is the name of the plane whose network this one joins, which starts first.
	// Empty for none.
	Beside string
}

// NameOf is the name of the unit of a plane.
func NameOf(plane string) string { return prefix + plane + suffix }

// format takes the plane, what it starts after, both paths as words of a list, the program
// and the state directory as arguments, Env and the state directory as it is.
const format = `# Written by "slipway install", which replaces it; "slipway uninstall" removes it.
# Changes of your own belong into a drop-in: systemctl edit %[1]s
[Unit]
Description=Slipway plane %[2]s: etcd, kube-apiserver and Cluster API
Documentation=https://github.com/slipway-dev/slipway
Wants=network-online.target
After=network-online.target%[3]s
RequiresMountsFor=%[4]s %[5]s
# it never gives up: without the plane nobody mends the clusters of its hosts
StartLimitIntervalSec=0

[Service]
# ready once all components are, however long the database takes to be read
Type=notify
TimeoutStartSec=infinity
ExecStart=%[6]s serve --state-dir %[7]s
Environment=%[8]s=yes
Restart=always
RestartSec=5
# local hosts outlive the plane; slipway-lifecycle ends with it by itself
KillMode=process
TimeoutStopSec=30
# keeps the controllers on that the control groups of local hosts need
Delegate=yes
# hosts on other machines have two connections each
LimitNOFILE=1048576
TasksMax=infinity

[Install]
WantedBy=multi-user.target

[%[9]s]
%[10]s=%[11]s
`

// Render is the content of the unit file; a *PathError when systemd could not run it.
func (u Unit) Render() (string, error) {
	for _, path := range []string{u.Program, u.StateDir} {
		if err := checkPath(path); err != nil {
			return "", err
		}
	}
	after := ""
	if u.Beside != "" {
		after = " " + NameOf(u.Beside)
	}
	return fmt.Sprintf(format, NameOf(u.Plane), u.Plane, after, word(filepath.Dir(u.Program)), word(u.StateDir),
		word(u.Program), argument(u.StateDir), Env, ownSection, stateDirKey, u.StateDir), nil
}

// stateDirOf reads from a unit file whose plane it is of; ok is false for a file that this
// package did not write.
func stateDirOf(text string) (dir string, ok bool) {
	sections, err := unit.DeserializeSections(strings.NewReader(text))
	if err != nil {
		return "", false // what is no unit file is not ours
	}
	for _, section := range sections {
		if section.Section != ownSection {
			continue
		}
		for _, entry := range section.Entries {
			if entry.Name == stateDirKey {
				return entry.Value, entry.Value != ""
			}
		}
	}
	return "", false
}
