package up

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/plane/internal/progress"
)

func newInstance(t *testing.T) (*instance.Instance, *localhost.Manager) {
	t.Helper()
	if os.Geteuid() != 0 {
		rights.Skip(t, "needs root")
	}
	dir, err := os.MkdirTemp("", "slipway")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	inst, err := instance.Create(filepath.Join(dir, "s"), instance.Config{Name: "planetest-down", APIPort: 1, Bundle: "/nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	return inst, &localhost.Manager{StateDir: inst.Dir, Name: inst.Name, Bundle: inst.Bundle}
}

func runDown(t *testing.T, inst *instance.Instance, hosts *localhost.Manager, purge bool) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	tree := progress.New(null)
	defer tree.Close()
	if err := Down(t.Context(), inst, hosts, purge, tree); err != nil {
		t.Fatal(err)
	}
}

func TestDownKeepsTheStateUnlessPurged(t *testing.T) {
	inst, hosts := newInstance(t)
	if err := inst.Own(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		runDown(t, inst, hosts, false)
	}
	if _, err := instance.Open(inst.Dir); err != nil {
		t.Errorf("the state is gone: %v", err)
	}
	other, _ := newInstance(t)
	if err := other.Own(); err != nil {
		t.Errorf("the name is not free after down: %v", err)
	}
	// Now the name is another plane's, and this down must leave it alone.
	runDown(t, inst, hosts, true)
	if !other.Owns() {
		t.Error("down took the name away from another plane")
	}
	if _, err := os.Stat(inst.Dir); !os.IsNotExist(err) {
		t.Errorf("still there after --purge: %v", err)
	}
	if err := other.Disown(); err != nil {
		t.Error(err)
	}
}

// TestErrorsOfAllHostsAreReported holds that no host that cannot be switched off hides another one.
func TestErrorsOfAllHostsAreReported(t *testing.T) {
	err := ofEach([]localhost.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}, func(name string) error {
		if name == "b" {
			return nil
		}
		return errors.New("it does not end")
	})
	if err == nil || err.Error() != "a: it does not end\nc: it does not end" {
		t.Errorf("got %v", err)
	}
	if err := ofEach(nil, nil); err != nil {
		t.Errorf("without hosts: %v", err)
	}
}
