package listener

// budget bounds connections and shares them between keys.
type budget struct {
	limit int
	size  int
	byKey map[string]map[*conn]struct{}
}

// add counts c for key and returns the connection that has to be closed for it, which is counted no longer; nil
// for none. It is the one that has been silent for the longest time, of the keys that have the most connections.
func (b *budget) add(c *conn, key string) (gone *conn) {
	if b.byKey == nil {
		b.byKey = map[string]map[*conn]struct{}{}
	}
	if b.byKey[key] == nil {
		b.byKey[key] = map[*conn]struct{}{}
	}
	b.byKey[key][c] = struct{}{}
	c.in, c.key = b, key
	if b.size++; b.size <= b.limit {
		return nil
	}
	most := 0
	for _, conns := range b.byKey {
		most = max(most, len(conns))
	}
	var since int64
	for _, conns := range b.byKey {
		if len(conns) < most {
			continue
		}
		for other := range conns {
			if active := other.active.Load(); other != c && (gone == nil || active < since) {
				gone, since = other, active
			}
		}
	}
	b.remove(gone)
	return gone
}

// remove is for a connection of this budget.
func (b *budget) remove(c *conn) {
	delete(b.byKey[c.key], c)
	if len(b.byKey[c.key]) == 0 {
		delete(b.byKey, c.key)
	}
	b.size--
	c.in = nil
}
