package uninstall

import (
	"path/filepath"
	"slices"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/durable"
)

const (
	unitName  = "slipway-agent.service"
	unitPath  = "/etc/systemd/system/" + unitName
	agentPath = "/usr/local/bin/slipway-agent"
	// staging is where `slipway host add` brings things to.
	staging = "/var/lib/slipway-host-add"
	// logPath has the output of the commands of bootstraps.
	logPath = "/var/log/slipway-bootstrap.log"
)

// place is something on the host that is the agent's.
type place struct {
	path string
	// all says that it goes with everything in it.
	all bool
	// directory says that it goes once it is empty.
	directory bool
	// named says that it stays, and that the report names it.
	named bool
	// temporaries begin with this, in the same directory: what a kill in mid write left.
	temporaries string
}

// places are what is removed, in this order: the state that names the host before the
// configuration that says where the state is, and the program after all that needs it. linked is where
// the state is if its directory is a link.
func places(c *config.AgentConfiguration, linked string) []place {
	return slices.Concat([]place{file(c.BootstrapKubeconfig)}, state(c.StateDir, linked), []place{
		{path: logPath},
		// Keys that somebody put elsewhere are not the agent's.
		file(config.Default().Software.PublicKeyFile),
		file(config.DefaultPath),
		{path: filepath.Dir(config.DefaultPath), directory: true},
		{path: "/etc/systemd/system/multi-user.target.wants/" + unitName},
		{path: unitPath + ".new"},
		{path: unitPath},
		{path: staging, all: true},
		{path: agentPath + ".new"},
		// An update of the agent that was cut short.
		{path: agentPath + ".next.part"},
		{path: agentPath + ".next"},
		{path: agentPath},
	})
}

// away is where a link leads of which this host has no target.
const away = "away"

func file(path string) place {
	return place{path: path, temporaries: durable.Temporary(filepath.Base(path))}
}

// state goes with everything in it where it is the agent's own; a directory that somebody
// else chose may be used for more, so there the agent's files go by name.
func state(dir, linked string) []place {
	var all []place
	switch {
	case linked == away:
		return []place{{path: dir, named: true}}
	case linked != "":
		return append(state(linked, ""), place{path: dir})
	case dir == config.Default().StateDir:
		return []place{{path: dir, all: true}}
	}
	for _, name := range config.StateDirectories {
		all = append(all, place{path: filepath.Join(dir, name), all: true})
	}
	damaged := config.JournalFile + journal.DamagedSuffix
	all = append(all, place{path: filepath.Join(dir, config.JournalFile+journal.SpareSuffix)}, place{path: filepath.Join(dir, damaged), temporaries: damaged})
	for _, name := range config.StateFiles {
		all = append(all, file(filepath.Join(dir, name)))
	}
	return append(all, place{path: dir, directory: true})
}
