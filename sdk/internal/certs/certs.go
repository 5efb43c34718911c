package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
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

// File is what PEM files hold, read again when it is asked for.
type File[T any] struct {
	parts   []part
	parse   func(contents [][]byte) (*T, error)
	observe func(Reload)

	mu       sync.Mutex
	checked  time.Time
	failure  string
	contents [][]byte
	current  *T
}

// part is one of the files, and what it holds.
type part struct{ what, name string }

// KeyPair is a certificate and its key in two files.
type KeyPair = File[tls.Certificate]

// Pool is a bundle of CA certificates in a file.
type Pool = File[x509.CertPool]

// NewKeyPair loads the pair. It fails if it cannot be loaded. observe, which may be
// nil, is told of each look that finds a new pair or fails.
func NewKeyPair(certFile, keyFile string, observe func(Reload)) (*KeyPair, error) {
	return newFile(func(contents [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", certFile, keyFile, err)
		}
		return &pair, nil
	}, observe, part{"certificate", certFile}, part{"key of the certificate", keyFile})
}

// NewPool loads the bundle. It fails if the file holds no certificate. observe, which
// may be nil, is told of each look that finds a new bundle or fails.
func NewPool(file string, observe func(Reload)) (*Pool, error) {
	return newFile(func(contents [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(contents[0]) {
			return nil, fmt.Errorf("CA bundle %s: no certificate in PEM form", file)
		}
		return pool, nil
	}, observe, part{"CA bundle", file})
}

func newFile[T any](parse func([][]byte) (*T, error), observe func(Reload), parts ...part) (*File[T], error) {
	f := &File[T]{parts: parts, parse: parse, observe: observe}
	if _, err := f.load(); err != nil {
		return nil, err
	}
	f.checked = time.Now()
	return f, nil
}

// Get returns what the files hold. The same content is the same pointer; one that cannot be
// loaded, such as a pair that is half replaced, leaves the last good one in use.
func (f *File[T]) Get() *T {
	f.mu.Lock()
	tell := f.look()
	current := f.current
	f.mu.Unlock()
	tell()
	return current
}

// look, called with the lock held, loads the files if the last look was long ago. It
// returns what tells the observer once the lock is free.
func (f *File[T]) look() func() {
	now := time.Now()
	if now.Sub(f.checked) < interval {
		return func() {}
	}
	f.checked = now
	changed, err := f.load()
	text := ""
	if err != nil {
		text = err.Error()
	}
	reload := Reload{Err: err, Again: err != nil && text == f.failure}
	// Files that are as they were after a failure are in order again, too.
	told := err != nil || changed || f.failure != ""
	f.failure = text
	if !told || f.observe == nil {
		return func() {}
	}
	return func() { f.observe(reload) }
}

func (f *File[T]) load() (changed bool, err error) {
	contents := make([][]byte, len(f.parts))
	for i, p := range f.parts {
		if contents[i], err = os.ReadFile(p.name); err != nil {
			return false, fmt.Errorf("%s: %w", p.what, err)
		}
	}
	if slices.EqualFunc(contents, f.contents, bytes.Equal) {
		return false, nil
	}
	current, err := f.parse(contents)
	if err != nil {
		return false, err
	}
	f.contents, f.current = contents, current
	return true, nil
}
