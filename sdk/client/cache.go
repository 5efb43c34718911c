package client

import (
	"sync"
	"time"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// Cache keeps responses of calls that are repeated with the same request. It
// stores and returns copies, so neither side can change what the other holds.
// It is safe for concurrent use.
type Cache struct {
	ttl  time.Duration
	size int
	now  func() time.Time

	mu      sync.Mutex
	entries map[string]cacheEntry
}

type cacheEntry struct {
	response hooksv1.ResponseObject
	expires  time.Time
}

// NewCache returns a cache of up to size responses that are used for ttl.
func NewCache(size int, ttl time.Duration) *Cache {
	return &Cache{ttl: ttl, size: size, now: time.Now, entries: map[string]cacheEntry{}}
}

func (c *Cache) get(key string) (hooksv1.ResponseObject, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, ok := c.entries[key]
	if !ok || c.now().After(entry.expires) {
		return nil, false
	}
	return entry.response.DeepCopyObject().(hooksv1.ResponseObject), true
}

func (c *Cache) put(key string, response hooksv1.ResponseObject) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if _, ok := c.entries[key]; !ok && len(c.entries) >= c.size {
		c.makeRoom(now)
	}
	c.entries[key] = cacheEntry{response: response.DeepCopyObject().(hooksv1.ResponseObject), expires: now.Add(c.ttl)}
}

// makeRoom drops what has expired, or else what expires first.
func (c *Cache) makeRoom(now time.Time) {
	var first string
	var expires time.Time
	for key, entry := range c.entries {
		if now.After(entry.expires) {
			delete(c.entries, key)
		} else if first == "" || entry.expires.Before(expires) {
			first, expires = key, entry.expires
		}
	}
	if len(c.entries) >= c.size {
		delete(c.entries, first)
	}
}
