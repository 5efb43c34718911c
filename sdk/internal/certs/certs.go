package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"
)

// interval is the least time between two looks at the files. They are compared
// by content: a renamed symbolic link may keep size and modification time.
const interval = time.Second

// KeyPair is a certificate and its key in two PEM files.
type KeyPair struct {
	certFile, keyFile string
	onChange          func()

	mu        sync.Mutex
	checked   time.Time
	cert, key []byte
	current   *tls.Certificate
}

// NewKeyPair loads the pair. It fails if it cannot be loaded. onChange, which may
// be nil, is called after a reload.
func NewKeyPair(certFile, keyFile string, onChange func()) (*KeyPair, error) {
	k := &KeyPair{certFile: certFile, keyFile: keyFile, onChange: onChange}
	if _, err := k.load(); err != nil {
		return nil, err
	}
	k.checked = time.Now()
	return k, nil
}

func (k *KeyPair) load() (changed bool, err error) {
	cert, err := os.ReadFile(k.certFile)
	if err != nil {
		return false, fmt.Errorf("certificate: %w", err)
	}
	key, err := os.ReadFile(k.keyFile)
	if err != nil {
		return false, fmt.Errorf("key of the certificate: %w", err)
	}
	if bytes.Equal(cert, k.cert) && bytes.Equal(key, k.key) {
		return false, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, fmt.Errorf("certificate %s with key %s: %w", k.certFile, k.keyFile, err)
	}
	k.cert, k.key, k.current = cert, key, &pair
	return true, nil
}

// Get returns the current pair. A pair that cannot be loaded, such as one that is
// half replaced, leaves the last good one in use.
func (k *KeyPair) Get() *tls.Certificate {
	k.mu.Lock()
	changed := false
	if now := time.Now(); now.Sub(k.checked) >= interval {
		k.checked = now
		changed, _ = k.load()
	}
	current := k.current
	k.mu.Unlock()
	if changed && k.onChange != nil {
		k.onChange()
	}
	return current
}

// Pool is a bundle of CA certificates in a PEM file.
type Pool struct {
	file string

	mu      sync.Mutex
	checked time.Time
	pem     []byte
	current *x509.CertPool
}

// NewPool loads the bundle. It fails if the file holds no certificate.
func NewPool(file string) (*Pool, error) {
	p := &Pool{file: file}
	if err := p.load(); err != nil {
		return nil, err
	}
	p.checked = time.Now()
	return p, nil
}

func (p *Pool) load() error {
	pem, err := os.ReadFile(p.file)
	if err != nil {
		return fmt.Errorf("CA bundle: %w", err)
	}
	if bytes.Equal(pem, p.pem) {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("CA bundle %s: no certificate in PEM form", p.file)
	}
	p.pem, p.current = pem, pool
	return nil
}

// Get returns the current bundle. The same bundle is the same pointer; one that
// cannot be loaded leaves the last good one in use.
func (p *Pool) Get() *x509.CertPool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.checked) >= interval {
		p.checked = now
		_ = p.load()
	}
	return p.current
}
