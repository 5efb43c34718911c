package enroll

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/keyutil"

	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/host"
)

// Files in the state directory, each readable by root only.
const (
	keyFile = config.IdentityKeyFile
	// enrollmentFile is the certificate of the identity key. It is good for asking for
	// working certificates, and nothing else.
	enrollmentFile = config.EnrollmentFile
	// workingFile has the certificate that the agent works with and its key, in one file,
	// so that they are replaced in one step.
	workingFile = config.WorkingFile
	// nextKeyFile is the key of the working certificate that is being asked for.
	nextKeyFile    = config.NextKeyFile
	kubeconfigFile = config.KubeconfigFile
	nameFile       = config.HostNameFile
)

// loadKey reads the identity key, and makes it when there is none. A key that
// cannot be read is an error: a new one would be another machine.
func loadKey(dir string) (*ecdsa.PrivateKey, error) {
	path := filepath.Join(dir, keyFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the identity key: %w", err)
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(data)
	key, ok := parsed.(*ecdsa.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("the identity key %s is not an ECDSA key; restore it from a backup, or remove it and delete the Host to enroll afresh", path)
	}
	return key, nil
}

func makeKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return key, durable.Write(path, block, 0o600)
}

// nextKey is the key of the working certificate that is asked for. It is kept until there is
// one: a restart finds the request it has filed already. Where the power went before it was
// removed, it is that of the current certificate by now, and another one is made.
func nextKey(dir string, current *tls.Certificate) (*ecdsa.PrivateKey, error) {
	path := filepath.Join(dir, nextKeyFile)
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if parsed, err := keyutil.ParsePrivateKeyPEM(data); err == nil {
		if key, ok := parsed.(*ecdsa.PrivateKey); ok && (current == nil || !key.Equal(current.PrivateKey)) {
			return key, nil
		}
	}
	return makeKey(path)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyutil.ECPrivateKeyBlockType, Bytes: der}), nil
}

// Identity returns the ID of this machine, and makes its key on the first call.
func Identity(dir string) (string, error) {
	key, err := loadKey(dir)
	if err != nil {
		return "", err
	}
	return host.ID(&key.PublicKey)
}

// HostName returns the configured name, or the one kept in the state directory,
// or else the name of the machine, which it then keeps: bootstrap data may
// rename the machine, but never the Host.
func HostName(dir, configured string, validate func(string) error) (string, error) {
	path := filepath.Join(dir, nameFile)
	kept, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if configured != "" {
		return configured, nil
	}
	if len(kept) > 0 {
		return string(kept), nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", err
	}
	if err := validate(name); err != nil {
		return "", fmt.Errorf("the name of this machine %w", err)
	}
	return name, durable.Write(path, []byte(name), 0o600)
}
