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

// Reload is a look at files that were replaced.
type Reload struct {
	// Err is why they cannot be used, so that what they held before stays in use;
	// nil if what they hold now is.
	Err error
	// Again tells that the last look ended with the same error.
	Again bool
}

// watch looks at files when they are needed.
type watch struct {
	observe func(Reload)

	mu      sync.Mutex
	checked time.Time
	failure string
}

// look, called with the lock held, loads the files if the last look was long ago. It
// returns what tells the observer once the lock is free.
func (w *watch) look(load func() (changed bool, err error)) func() {
	now := time.Now()
	if now.Sub(w.checked) < interval {
		return func() {}
	}
	w.checked = now
	changed, err := load()
	text := ""
	if err != nil {
		text = err.Error()
	}
	reload := Reload{Err: err, Again: err != nil && text == w.failure}
	// Files that are as they were after a failure are in order again, too.
	told := err != nil || changed || w.failure != ""
	w.failure = text
	if !told || w.observe == nil {
		return func() {}
	}
	return func() { w.observe(reload) }
}

// KeyPair is a certificate and its key in two PEM files.
type KeyPair struct {
	certFile, keyFile string

	watch
	cert, key []byte
	current   *tls.Certificate
}

// NewKeyPair loads the pair. It fails if it cannot be loaded. observe, which may be
// nil, is told of each look that finds a new pair or fails.
func NewKeyPair(certFile, keyFile string, observe func(Reload)) (*KeyPair, error) {
	k := &KeyPair{certFile: certFile, keyFile: keyFile, watch: watch{observe: observe}}
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
	tell := k.look(k.load)
	current := k.current
	k.mu.Unlock()
	tell()
	return current
}

// Pool is a bundle of CA certificates in a PEM file.
type Pool struct {
	file string

	watch
	pem     []byte
	current *x509.CertPool
}

// NewPool loads the bundle. It fails if the file holds no certificate. observe, which
// may be nil, is told of each look that finds a new bundle or fails.
func NewPool(file string, observe func(Reload)) (*Pool, error) {
	p := &Pool{file: file, watch: watch{observe: observe}}
	if _, err := p.load(); err != nil {
		return nil, err
	}
	p.checked = time.Now()
	return p, nil
}

func (p *Pool) load() (changed bool, err error) {
	pem, err := os.ReadFile(p.file)
	if err != nil {
		return false, fmt.Errorf("CA bundle: %w", err)
	}
	if bytes.Equal(pem, p.pem) {
		return false, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return false, fmt.Errorf("CA bundle %s: no certificate in PEM form", p.file)
	}
	p.pem, p.current = pem, pool
	return true, nil
}

// Get returns the current bundle. The same bundle is the same pointer; one that
// cannot be loaded leaves the last good one in use.
func (p *Pool) Get() *x509.CertPool {
	p.mu.Lock()
	tell := p.look(p.load)
	current := p.current
	p.mu.Unlock()
	tell()
	return current
}
