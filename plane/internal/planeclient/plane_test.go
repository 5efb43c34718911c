package planeclient

import (
	"encoding/json"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// Hosts are told where the plane that runs listens, whatever was chosen since; one that does
// not run listens where it was chosen.
func TestServerIsWhereThePlaneListens(t *testing.T) {
	const local, before, now = "https://10.88.0.1:6443", "https://192.0.2.10:6443", "https://192.0.2.11:6443"
	mine := os.Getpid()
	for name, c := range map[string]struct {
		listen string
		record statedir.Status
		runs   bool
		want   string
	}{
		"as chosen":                     {"192.0.2.11", statedir.Status{PID: mine, Outside: &statedir.Outside{Server: now}}, true, now},
		"chosen since":                  {"192.0.2.11", statedir.Status{PID: mine, Outside: &statedir.Outside{Server: before}}, true, before},
		"chosen since, for none before": {"192.0.2.11", statedir.Status{PID: mine}, true, local},
		"given up since":                {"", statedir.Status{PID: mine, Outside: &statedir.Outside{Server: before}}, true, before},
		"down":                          {"192.0.2.11", statedir.Status{PID: mine, Outside: &statedir.Outside{Server: before}}, false, now},
		"the record of an earlier":      {"192.0.2.11", statedir.Status{PID: mine + 1, Outside: &statedir.Outside{Server: before}}, true, now},
		"down, and it was for none":     {"", statedir.Status{}, false, local},
	} {
		inst := &instance.Instance{Dir: t.TempDir(), Config: instance.Config{Name: "s", APIPort: instance.DefaultAPIPort, Listen: c.listen}}
		for file, content := range map[string]any{"lock": statedir.Holder{PID: mine}, "status.json": c.record} {
			data, err := json.Marshal(content)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(inst.Path(file), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if c.runs {
			hold(t, inst.Path("lock"))
		}
		if got := (Plane{Instance: inst}).Server(); got != c.want {
			t.Errorf("%s: hosts are told %s, want %s", name, got, c.want)
		}
	}
}

// hold locks a file as the plane that serves does.
func hold(t *testing.T, path string) {
	t.Helper()
	lock, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
}
