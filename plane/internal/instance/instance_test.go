package instance

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func config() Config {
	return Config{Name: "a", APIPort: DefaultAPIPort, Bundle: "/bundle"}
}

func TestCreateKeepsWhatWasChosen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if _, err := Open(dir); !errors.Is(err, ErrNone) {
		t.Fatalf("Open of nothing = %v, want ErrNone", err)
	}
	if _, err := Create(dir, config()); err != nil {
		t.Fatal(err)
	}
	again, err := Create(dir, Config{Name: "b", APIPort: 1, Bundle: "/moved"})
	if err != nil {
		t.Fatal(err)
	}
	if again.Name != "a" || again.APIPort != DefaultAPIPort || again.Bundle != "/moved" {
		t.Errorf("second Create = %+v, want the first choice but for the bundle", again.Config)
	}
}

func TestCreateRefusesADirectoryThatIsNotItsOwn(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, config()); err == nil {
		t.Error("a directory with files of somebody else was taken; down --purge would remove them")
	}
}

func TestValidateNamesTheFlag(t *testing.T) {
	for _, c := range []Config{{Name: "", APIPort: 1}, {Name: "UPPER", APIPort: 1}, {Name: "a/b", APIPort: 1}, {Name: "a", APIPort: 0}, {Name: "a", APIPort: 70000}} {
		if err := c.Validate(); err == nil {
			t.Errorf("%+v is valid", c)
		}
	}
}

func TestLockKeepsOthersOut(t *testing.T) {
	i, err := Create(filepath.Join(t.TempDir(), "s"), config())
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := i.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Lock(); !errors.Is(err, ErrLocked) {
		t.Errorf("second Lock = %v, want ErrLocked", err)
	}
	unlock()
	unlock, err = i.Lock()
	if err != nil {
		t.Fatalf("Lock after unlock = %v", err)
	}
	unlock()
}

func TestWriteFileReplacesAndSetsTheMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, content := range []string{"one", "two"} {
		if err := WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil || string(data) != "two" {
		t.Errorf("content %q, %v", data, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}
