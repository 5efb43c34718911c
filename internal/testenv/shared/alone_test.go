package shared

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// What is made once is made once, and what was ended midway is made again.
func TestOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "file")
	ended := errors.New("ended midway")
	if err := Once(path, func(path string) error { return errors.Join(os.WriteFile(path, []byte("half"), 0o600), ended) }); !errors.Is(err, ended) {
		t.Errorf("an error is %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was ended midway is taken for made: %v", err)
	}
	for _, text := range []string{"first", "second"} {
		err := Once(path, func(path string) error {
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("what was ended midway is in the way: %v", err)
			}
			return os.WriteFile(path, []byte(text), 0o600)
		})
		if err != nil {
			t.Fatal(err)
		}
		if made, err := os.ReadFile(path); err != nil || string(made) != "first" {
			t.Errorf("asked for %s: %q, %v", text, made, err)
		}
	}
}
