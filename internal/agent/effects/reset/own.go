package reset

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
)

// ofAgents are the agent's configuration, its unit and its program, which the operator and its updates change.
var ofAgents = []string{
	"/etc/slipway", "/etc/systemd/system/slipway-agent.service", "/etc/systemd/system/slipway-agent.service.new",
	"/etc/systemd/system/multi-user.target.wants/slipway-agent.service",
	"/usr/local/bin/slipway-agent", "/usr/local/bin/slipway-agent.new", "/usr/local/bin/slipway-agent.next", "/usr/local/bin/slipway-agent.next.part",
}

func ofAgent(name string) bool {
	return slices.Contains(ofAgents, name) || path.Dir(name) == ofAgents[0]
}

// programOf says whether a path is a link to a program of the chosen version, which has a trace of its own.
func programOf(state journal.State, name string) bool {
	_, known := state.Programs[path.Base(name)]
	return known && path.Dir(name) == "/usr/local/bin"
}

// installed knows the files and links that the agent itself installs with the software of Kubernetes.
type installed struct {
	once    sync.Once
	entries map[string][]installedEntry
}

type installedEntry struct {
	Path   string        `json:"path"`
	Digest digest.Digest `json:"digest"`
	Target string        `json:"target"`
}

// softwareRecord is that of the package software.
const softwareRecord = "/var/lib/slipway-software.json"

// own says whether a path is just what was installed there.
func (i *installed) own(c Cleaner, ch change) bool {
	i.once.Do(func() {
		i.entries = map[string][]installedEntry{}
		record := struct {
			Entries []installedEntry `json:"entries"`
		}{}
		data, err := c.Root.ReadFile(softwareRecord)
		if err != nil || json.Unmarshal(data, &record) != nil {
			return // the agent has installed nothing
		}
		for _, e := range record.Entries {
			i.entries[e.Path] = append(i.entries[e.Path], e)
		}
	})
	return slices.ContainsFunc(i.entries[ch.name], func(e installedEntry) bool {
		if target, link := strings.CutPrefix(ch.now, "link "); link {
			return target == e.Target || !path.IsAbs(e.Target) && target == path.Join(path.Dir(ch.name), e.Target)
		}
		content, err := c.Root.ReadFile(ch.name)
		return err == nil && e.Digest != "" && strings.HasPrefix(ch.now, "file ") && digest.FromBytes(content) == e.Digest
	})
}
