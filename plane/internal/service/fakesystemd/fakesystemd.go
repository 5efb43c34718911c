// Package fakesystemd stands in for systemd where it does not run the machine: programs
// systemctl and journalctl that keep in a directory what they were asked for, and a place
// for units. Only tests may import it; it imports internal/service.
package fakesystemd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/plane/internal/service"
)

// systemctl knows one unit: whether it is active and enabled are files beside the program.
const systemctl = `#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >>calls
case $1 in -*) shift;; esac
if [ -e "fails-$1" ]; then cat "fails-$1" >&2; exit 1; fi
case $1 in
show)
	read -r active sub <state
	echo "ActiveState=$active"; echo "SubState=$sub"
	if [ -e restarts ]; then read -r restarts <restarts; echo "NRestarts=$restarts"; else echo NRestarts=0; fi
	if [ -e enabled ]; then echo UnitFileState=enabled; else echo UnitFileState=disabled; fi
	if [ -e unread ]; then echo NeedDaemonReload=yes; else echo NeedDaemonReload=no; fi;;
enable) touch enabled;;
disable) rm -f enabled; echo inactive dead >state;;
stop) echo inactive dead >state;;
restart) echo active running >state;;
daemon-reload) rm -f unread;;
esac
`

const journalctl = `#!/bin/sh
for a; do case $a in --lines=*) lines=${a#--lines=};; esac; done
tail -n "$lines" "$(dirname "$0")/journal"
`

// Systemd of a test.
type Systemd struct {
	// Machine has the units.
	Machine service.Machine
	t       *testing.T
	dir     string
}

// New puts systemctl and journalctl first on the PATH of the test.
func New(t *testing.T) *Systemd {
	t.Helper()
	s := &Systemd{Machine: service.Machine{UnitDir: t.TempDir(), Booted: t.TempDir()}, t: t, dir: t.TempDir()}
	for name, content := range map[string]string{"systemctl": systemctl, "journalctl": journalctl, "state": "inactive dead\n", "journal": "", "calls": ""} {
		s.Write(name, content)
	}
	t.Setenv("PATH", s.dir+":"+os.Getenv("PATH"))
	return s
}

// Write gives a file of the programs its content: state, restarts, journal, unread for a unit whose
// file systemd has not read, or fails-VERB with what systemctl complains of.
func (s *Systemd) Write(name, content string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

// Remove takes such a file away.
func (s *Systemd) Remove(name string) {
	s.t.Helper()
	if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

// Calls are the arguments of systemctl since the last call, but those that only ask.
func (s *Systemd) Calls() []string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "calls"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.Write("calls", "")
	var calls []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "show ") {
			calls = append(calls, line)
		}
	}
	return calls
}
