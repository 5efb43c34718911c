package durable

import (
	"path/filepath"
	"strings"
	"sync"
)

// Effect is a change of the disk as Intercept sees it.
type Effect string

const (
	// Create makes a file, a link or a directory.
	Create Effect = "create"
	// Sync waits for the content of a file, which is written by then.
	Sync Effect = "sync"
	// Move gives a file, a link or a directory the name that the path says.
	Move Effect = "rename"
	// Delete removes a file, a link or an empty directory.
	Delete Effect = "remove"
	// DeleteAll removes a directory with everything in it.
	DeleteAll Effect = "remove all"
)

type interceptor struct {
	dir    string
	before func(Effect, string) error
}

var (
	interceptorsMu sync.RWMutex
	interceptors   []*interceptor
)

// Intercept calls f ahead of each change at or below a directory, until restore is called. An
// error of f is what the change fails with, instead of being done. For tests: nothing else
// calls it.
func Intercept(dir string, f func(effect Effect, path string) error) (restore func()) {
	own := &interceptor{filepath.Clean(dir), f}
	interceptorsMu.Lock()
	defer interceptorsMu.Unlock()
	interceptors = append(interceptors, own)
	return func() {
		interceptorsMu.Lock()
		defer interceptorsMu.Unlock()
		var others []*interceptor
		for _, i := range interceptors {
			if i != own {
				others = append(others, i)
			}
		}
		interceptors = others
	}
}

func before(effect Effect, path string) error {
	interceptorsMu.RLock()
	all := interceptors
	interceptorsMu.RUnlock()
	path = filepath.Clean(path)
	for _, i := range all {
		if rest, ok := strings.CutPrefix(path, i.dir); ok && (rest == "" || rest[0] == filepath.Separator) {
			if err := i.before(effect, path); err != nil {
				return err
			}
		}
	}
	return nil
}
