package kube

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slipway-dev/slipway/plane/internal/component"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// SecretsPrefix is where kube-apiserver keeps Secrets in etcd.
const SecretsPrefix = "/registry/secrets/"

// SecretStore is the etcd of the plane.
type SecretStore interface {
	// Any reports whether there is a key that begins with prefix.
	Any(ctx context.Context, prefix string) (bool, error)
}

// MissingKeyError says that etcd has Secrets, and that the key they are encrypted with is gone.
type MissingKeyError struct {
	// File is where the key is looked for.
	File string
}

func (e *MissingKeyError) Error() string {
	return fmt.Sprintf("Secrets in etcd are encrypted with a key that %s does not hold: restore that file from a backup of the state directory", e.File)
}

// Key is the component that makes the key at the first start. It starts when etcd is
// ready and before the API server does.
type Key struct {
	dir   string
	store SecretStore
}

// NewKey returns a Key whose file lies in dir, which must not be etcd's.
func NewKey(dir string, store SecretStore) *Key { return &Key{dir: dir, store: store} }

// Component is the key as a part of the plane.
func (k *Key) Component() component.Component {
	return component.Component{Name: "encryption", Init: k.Init}
}

// ConfigFile is the EncryptionConfiguration for kube-apiserver.
func (k *Key) ConfigFile() string { return filepath.Join(k.dir, EncryptionConfigFile) }

// Init makes the key, unless it is there. It returns a *MissingKeyError when Secrets are stored
// without it: a new key would make them unreadable for ever.
func (k *Key) Init(ctx context.Context) error {
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the encryption key: %w", err)
	}
	if err := statedir.CheckPrivate(k.dir); err != nil {
		return err
	}
	err := checkKey(k.ConfigFile())
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	stored, err := k.store.Any(ctx, SecretsPrefix)
	if err != nil {
		return err
	}
	if stored {
		return &MissingKeyError{k.ConfigFile()}
	}
	return createKey(k.ConfigFile())
}
