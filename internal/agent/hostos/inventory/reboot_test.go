package inventory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// redHat is a host with needs-restarting; nil is one without.
type redHat struct {
	says  string
	asked int
}

func (p *redHat) Has(string) bool { return p != nil }

func (p *redHat) Run(context.Context, string, ...string) ([]byte, error) {
	p.asked++
	return []byte(p.says), errors.New("exit code 1")
}

const (
	coreUpdated = "Core libraries or services have been updated since boot-up:\n  * glibc\n  * kernel\n\nReboot is required to fully utilize these updates.\nMore information: https://access.redhat.com/solutions/27943\n"
	noneUpdated = "No core libraries or services have been updated since boot-up.\nReboot should not be necessary.\n"
)

// Each way in which a distribution says that an update needs a reboot, and what looks like one.
func TestRebootRequired(t *testing.T) {
	now := time.Now()
	before, after := now.Add(-time.Hour), now.Add(time.Hour)
	for name, c := range map[string]struct {
		running string
		boot    time.Time
		files   map[string]string
		redHat  *redHat
		want    string
	}{
		"nothing":                 {running: "6.1.0-28-amd64", boot: before, files: map[string]string{"/boot/vmlinuz-6.1.0-28-amd64": "", "/run/reboot-required.pkgs": "libc6\n"}},
		"Debian's mark":           {files: map[string]string{"/run/reboot-required": "*** System restart required ***\n", "/run/reboot-required.pkgs": "libc6\ndbus\nlibc6\n"}, want: ` ["dbus" "libc6"]`},
		"a mark without packages": {files: map[string]string{"/run/reboot-required": ""}, want: ` []`},
		"SUSE's mark":             {files: map[string]string{"/run/reboot-needed": ""}, want: ` []`},
		"Red Hat":                 {redHat: &redHat{says: coreUpdated}, want: ` ["glibc" "kernel"]`},
		"Red Hat, nothing":        {redHat: &redHat{says: noneUpdated}},
		"Red Hat, an error":       {redHat: &redHat{says: ""}},
		"a newer kernel":          {running: "6.1.0-9-amd64", boot: before, files: map[string]string{"/boot/vmlinuz-6.1.0-28-amd64": "", "/boot/vmlinuz-6.1.0-27-amd64": ""}, want: `6.1.0-28-amd64 []`},
		"with its modules":        {running: "6.4.0-150600.23.30-default", boot: before, files: map[string]string{"/usr/lib/modules/6.4.0-150600.23.33-default/vmlinuz": ""}, want: `6.4.0-150600.23.33-default []`},
		"of the next minor":       {running: "5.14.0-427.42.1.el9_4.x86_64", boot: before, files: map[string]string{"/boot/vmlinuz-5.14.0-503.11.1.el9_5.x86_64": ""}, want: `5.14.0-503.11.1.el9_5.x86_64 []`},
		"an older one":            {running: "6.1.0-28-amd64", boot: before, files: map[string]string{"/boot/vmlinuz-6.1.0-9-amd64": ""}},
		"of another flavour":      {running: "6.1.0-27-amd64", boot: before, files: map[string]string{"/boot/vmlinuz-6.1.0-28-cloud-amd64": "", "/boot/vmlinuz-6.12.9+bpo-amd64": "", "/boot/vmlinuz-0-rescue-8f2c": ""}},
		"there at the boot":       {running: "6.1.0-27-amd64", boot: after, files: map[string]string{"/boot/vmlinuz-6.1.0-28-amd64": ""}},
		"removed, but modules":    {running: "6.1.0-27-amd64", boot: before, files: map[string]string{"/usr/lib/modules/6.1.0-28-amd64/kernel/left.ko": ""}},
		"in a container":          {running: "6.1.0-27-amd64", files: map[string]string{"/boot/vmlinuz-6.1.0-28-amd64": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			root := hostfs.Root(t.TempDir())
			c.files = withKernel(c.files, c.running, c.boot)
			for path, content := range c.files {
				write(t, root, path, content)
			}
			r := Reboots{Root: root, Runner: c.redHat, Now: time.Now}
			got := ""
			if required := r.Required(t.Context()); required != nil {
				got = fmt.Sprintf("%s %q", required.KernelVersion, required.Packages)
				if at := required.Since.Time; at.Before(before) || at.After(after) {
					t.Errorf("since %s", required.Since)
				}
			}
			if got != c.want {
				t.Errorf("required: %s, want %s", got, c.want)
			}
		})
	}
}

func withKernel(files map[string]string, running string, boot time.Time) map[string]string {
	if files == nil {
		files = map[string]string{}
	}
	files["/proc/sys/kernel/osrelease"] = running + "\n"
	if !boot.IsZero() {
		files["/proc/stat"] = fmt.Sprintf("cpu  1 2 3\nbtime %d\nprocesses 4\n", boot.Unix())
	}
	return files
}

func write(t *testing.T, root hostfs.Root, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(root.Path(path)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root.Path(path), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Further updates touch the mark, and do not make the need for a reboot younger; a reboot ends it.
func TestRebootIsRequiredSinceTheFirstUpdate(t *testing.T) {
	root, now := hostfs.Root(t.TempDir()), time.Now().Truncate(time.Second)
	r := Reboots{Root: root, Runner: (*redHat)(nil), Now: time.Now}
	mark := root.Path("/run/reboot-required")
	touch := func(at time.Time) time.Time {
		t.Helper()
		write(t, root, "/run/reboot-required", "")
		if err := os.Chtimes(mark, at, at); err != nil {
			t.Fatal(err)
		}
		return r.Required(t.Context()).Since.Time
	}
	first := now.Add(-48 * time.Hour)
	if got := touch(first); !got.Equal(first) {
		t.Errorf("since %s, want %s", got, first)
	}
	if got := touch(now); !got.Equal(first) {
		t.Errorf("after another update since %s, want %s", got, first)
	}
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	if required := r.Required(t.Context()); required != nil {
		t.Errorf("after the reboot it is %+v", required)
	}
	if got := touch(now); !got.Equal(now) {
		t.Errorf("anew since %s, want %s", got, now)
	}
}

// The program that reads the database of packages is asked once an hour.
func TestNeedsRestartingIsAskedOnceAnHour(t *testing.T) {
	now := time.Now()
	program := &redHat{says: coreUpdated}
	r := Reboots{Root: hostfs.Root(t.TempDir()), Runner: program, Now: func() time.Time { return now }}
	for look, want := range []int{1, 1, 2} {
		if r.Required(t.Context()) == nil || program.asked != want {
			t.Errorf("look %d: asked %d times, want %d", look, program.asked, want)
		}
		now = now.Add(31 * time.Minute)
	}
	program.says = strings.ReplaceAll(coreUpdated, "is required", "is done")
	now = now.Add(interval)
	if required := r.Required(t.Context()); required != nil {
		t.Errorf("it is %+v still", required)
	}
}
