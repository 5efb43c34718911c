package kube

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// EncryptionConfigFile is the file, in the directory of a Key, that holds the key.
const EncryptionConfigFile = "encryption.yaml"

// keyBytes is the size of a key of XSalsa20 and Poly1305, "secretbox".
const keyBytes = 32

// newKey is the configuration with a new key. Its name is a fingerprint, so that two
// keys never share one.
func newKey() ([]byte, error) {
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
			Providers: []apiserverv1.ProviderConfiguration{{Secretbox: &apiserverv1.SecretboxConfiguration{Keys: []apiserverv1.Key{key}}}},
		}},
	})
}

// checkKey returns an error for a file that is missing, open to others, or no configuration;
// kube-apiserver checks the rest.
func checkKey(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the encryption key: %w", err)
	}
	if err := statedir.CheckPrivate(path); err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(data, &apiserverv1.EncryptionConfiguration{}); err != nil {
		// The decoder's message may quote the file, and with it the key.
		return fmt.Errorf("%s is not an EncryptionConfiguration: restore it from a backup", path)
	}
	return nil
}

// createKey makes the file. It is on disk when createKey returns: a Secret must never be
// stored with a key that a power cut takes away.
func createKey(path string) error {
	config, err := newKey()
	if err != nil {
		return err
	}
	if err := durable.Write(path, config, 0o600); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(filepath.Dir(path)))
}

// ReadableSecrets returns what says of a value of etcd whether it was encrypted with a key of the configuration in the file at
// path, so that an API server with that file can read it.
func ReadableSecrets(path string) (func(value []byte) bool, error) {
	if err := checkKey(path); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var config apiserverv1.EncryptionConfiguration
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	var prefixes [][]byte
	for _, resource := range config.Resources {
		for _, provider := range resource.Providers {
			if provider.Secretbox == nil {
				continue
			}
			for _, key := range provider.Secretbox.Keys {
				prefixes = append(prefixes, []byte("k8s:enc:secretbox:v1:"+key.Name+":"))
			}
		}
	}
	return func(value []byte) bool {
		return slices.ContainsFunc(prefixes, func(prefix []byte) bool { return bytes.HasPrefix(value, prefix) })
	}, nil
}
