package encryption

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/slipway-dev/slipway/plane/internal/component"
	"github.com/slipway-dev/slipway/plane/internal/private"
)

// secretsPrefix is where kube-apiserver keeps Secrets in etcd.
const secretsPrefix = "/registry/secrets/"

// Store is what the package asks of etcd.
type Store interface {
	// Scan calls visit with each key that begins with prefix, and its value.
	Scan(ctx context.Context, prefix string, visit func(key string, value []byte) error) error
	// Scrub makes the store forget earlier values.
	Scrub(ctx context.Context) error
}

// UnknownKeyError says that a Secret in etcd is encrypted with a key that is not there.
type UnknownKeyError struct {
	// Key is the name of the missing key, File where it is looked for.
	Key, File string
}

func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("Secrets in etcd are encrypted with the key %s, which %s does not hold: restore that file from a backup of the state directory", e.Key, e.File)
}

// Key is the component that makes the key at the first start. It starts when etcd is
// ready and before the API server does.
type Key struct {
	dir   string
	store Store

	active string
	// plain are the keys in etcd of Secrets that are not encrypted with the active key.
	plain []string
}

// NewKey returns a Key whose file lies in dir, which must not be etcd's.
func NewKey(dir string, store Store) *Key { return &Key{dir: dir, store: store} }

var _ component.Component = (*Key)(nil)

// Name implements component.Component.
func (*Key) Name() string { return "encryption" }

// ConfigFile is the EncryptionConfiguration for kube-apiserver.
func (k *Key) ConfigFile() string { return filepath.Join(k.dir, ConfigFile) }

// Init makes the key, unless it is there. It returns an *UnknownKeyError when the stored
// Secrets need another one: a new key would make them unreadable for ever.
func (k *Key) Init(ctx context.Context) error {
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the encryption key: %w", err)
	}
	if err := private.Check(k.dir); err != nil {
		return err
	}
	names, err := load(k.ConfigFile())
	if err != nil {
		return err
	}
	used := map[string][]string{}
	err = k.store.Scan(ctx, secretsPrefix, func(key string, value []byte) error {
		name := keyOf(value)
		used[name] = append(used[name], key)
		if name != "" && !slices.Contains(names, name) {
			return &UnknownKeyError{Key: name, File: k.ConfigFile()}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if names == nil {
		if names, err = create(k.ConfigFile()); err != nil {
			return err
		}
	}
	k.active = names[0]
	k.plain = nil
	for name, found := range used {
		if name != k.active {
			k.plain = append(k.plain, found...)
		}
	}
	return nil
}

// Start implements component.Component.
func (*Key) Start(context.Context) error { return nil }

// Ready implements component.Component.
func (*Key) Ready(context.Context) error { return nil }

// Stop implements component.Component.
func (*Key) Stop(context.Context) error { return nil }
