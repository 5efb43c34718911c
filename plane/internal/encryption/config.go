package encryption

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/plane/internal/private"
)

// ConfigFile is the file in Options.Dir that holds the key.
const ConfigFile = "encryption.yaml"

// How kube-apiserver marks an encrypted value: the prefix, the provider's, the name of
// the key and a colon, before the ciphertext.
const (
	encryptedPrefix = "k8s:enc:"
	secretboxPrefix = encryptedPrefix + "secretbox:v1:"
)

// keyBytes is the size of a key of XSalsa20 and Poly1305, "secretbox".
const keyBytes = 32

// keys are those of the configuration file, by name, the one that encrypts first.
type keys []string

// newConfig is the configuration with a new key. Its name is a fingerprint, so that two
// keys never share one.
func newConfig() ([]byte, error) {
	secret := make([]byte, keyBytes)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(secret)
	key := apiserverv1.Key{Name: hex.EncodeToString(sum[:8]), Secret: base64.StdEncoding.EncodeToString(secret)}
	return yaml.Marshal(apiserverv1.EncryptionConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: apiserverv1.SchemeGroupVersion.String(), Kind: "EncryptionConfiguration"},
		Resources: []apiserverv1.ResourceConfiguration{{
			Resources: []string{"secrets"},
			Providers: []apiserverv1.ProviderConfiguration{
				{Secretbox: &apiserverv1.SecretboxConfiguration{Keys: []apiserverv1.Key{key}}},
				// Reads what an earlier plane stored.
				{Identity: &apiserverv1.IdentityConfiguration{}},
			},
		}},
	})
}

// load reads the keys' names; none when there is no file.
func load(path string) (keys, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the encryption key: %w", err)
	}
	if err := private.Check(path); err != nil {
		return nil, err
	}
	var config apiserverv1.EncryptionConfiguration
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		// The decoder's message may quote the file, and with it the key.
		return nil, fmt.Errorf("%s is not an EncryptionConfiguration: restore it from a backup", path)
	}
	var names keys
	for _, r := range config.Resources {
		for _, p := range r.Providers {
			if p.Secretbox == nil {
				continue
			}
			for _, key := range p.Secretbox.Keys {
				names = append(names, key.Name)
			}
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no key: want resources[0].providers[0].secretbox.keys; restore it from a backup", path)
	}
	return names, nil
}

// create makes the file. It is on disk when create returns: a Secret must never be
// stored with a key that a power cut takes away.
func create(path string) (keys, error) {
	config, err := newConfig()
	if err != nil {
		return nil, err
	}
	if err := durable.Write(path, config, 0o600); err != nil {
		return nil, err
	}
	if err := durable.SyncDir(filepath.Dir(filepath.Dir(path))); err != nil {
		return nil, err
	}
	return load(path)
}

// keyOf returns the name of the key that a stored value is encrypted with; empty for
// plain text.
func keyOf(value []byte) string {
	// A name and its colon fit well into this.
	head := string(value[:min(len(value), 512)])
	if rest, ok := strings.CutPrefix(head, secretboxPrefix); ok {
		name, _, _ := strings.Cut(rest, ":")
		return name
	}
	if strings.HasPrefix(head, encryptedPrefix) {
		provider, _, _ := strings.Cut(strings.TrimPrefix(head, encryptedPrefix), ":")
		return "of provider " + provider
	}
	return ""
}
