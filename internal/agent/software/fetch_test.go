package software

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/software/softwaretest"
	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// copied is a source that has both versions.
type copied struct{ softwaretest.Layout }

func (c copied) Versions(context.Context) ([]string, error) { return []string{older, newer}, nil }

func sourceOf(t *testing.T, layout string) copied {
	t.Helper()
	return copied{softwaretest.Layout{Dir: layout, Keys: keysOf(t, layout)}}
}

func keysOf(t *testing.T, layout string) hostbundle.PublicKeys {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(filepath.Dir(layout), "key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := hostbundle.ParsePublicKeys(data)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
