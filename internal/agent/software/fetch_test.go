package software

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/test/fakehost/bundlesource"
)

// copied is a source that has both versions.
type copied struct{ bundlesource.Layout }

func (c copied) Versions(context.Context) ([]string, error) { return []string{older, newer}, nil }

func sourceOf(t *testing.T, layout string) copied {
	t.Helper()
	return copied{bundlesource.Layout{Dir: layout, Keys: keysOf(t, layout)}}
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
