package planeclient

import (
	"os"
	"testing"

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
		lock, err := statedir.Acquire(inst.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := statedir.WriteStatus(inst.Dir, &c.record); err != nil {
			t.Fatal(err)
		}
		if c.runs {
			t.Cleanup(func() { _ = lock.Release() })
		} else if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		if got := (Plane{Instance: inst}).Server(); got != c.want {
			t.Errorf("%s: hosts are told %s, want %s", name, got, c.want)
		}
	}
}
