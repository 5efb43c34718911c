package run

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/sumdb/note"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/version"
)

// An agent updates itself where it is told to, has a key, and its program is its own.
func TestManagesItself(t *testing.T) {
	was := version.Version
	t.Cleanup(func() { version.Version = was })
	_, key, err := note.GenerateKey(rand.Reader, "test")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		management    infrav1.HostSoftwareManagement
		key, program  string
		version       string
		software, own infrav1.HostSoftwareManagement
	}{
		"managed":       {infrav1.HostSoftwareManaged, key, "", "v0.1.0", infrav1.HostSoftwareManaged, infrav1.HostSoftwareManaged},
		"provided":      {infrav1.HostSoftwareProvided, key, "", "v0.1.0", infrav1.HostSoftwareProvided, infrav1.HostSoftwareProvided},
		"without a key": {infrav1.HostSoftwareManaged, "", "", "v0.1.0", infrav1.HostSoftwareProvided, infrav1.HostSoftwareProvided},
		"of a package":  {infrav1.HostSoftwareManaged, key, "/usr/bin/slipway-agent", "v0.1.0", infrav1.HostSoftwareManaged, infrav1.HostSoftwareProvided},
		"no version":    {infrav1.HostSoftwareManaged, key, "", "v0.0.0-dev", infrav1.HostSoftwareManaged, infrav1.HostSoftwareProvided},
	} {
		root := hostfs.Root(t.TempDir())
		c := config.Default()
		c.Software.Management = tc.management
		path := root.Path(c.Software.PublicKeyFile)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(tc.key), 0o600)); err != nil {
			t.Fatal(err)
		}
		version.Version = tc.version
		a := &Agent{Config: c, Root: root, Log: slog.New(slog.DiscardHandler), program: tc.program}
		if a.program == "" {
			a.program = filepath.Join(t.TempDir(), "slipway-agent")
		}
		if s := a.softwareStatus(); s.Management != tc.software || s.AgentManagement != tc.own {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
