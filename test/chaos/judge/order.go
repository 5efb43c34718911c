package judge

import (
	"cmp"
	"maps"
	"slices"
)

// Order returns the entries as they happened: those of one cluster by resourceVersion,
// several clusters by when they were seen. Watches of one API server run side by side, so
// that what was written first may be seen last.
func Order(entries []Entry) []Entry {
	streams := map[string][]Entry{}
	var marks []Entry
	for _, e := range entries {
		if e.Revision == 0 {
			marks = append(marks, e)
		} else {
			streams[e.Cluster] = append(streams[e.Cluster], e)
		}
	}
	ordered := make([]Entry, 0, len(entries))
	for _, cluster := range slices.Sorted(maps.Keys(streams)) {
		stream := streams[cluster]
		slices.SortStableFunc(stream, func(a, b Entry) int { return cmp.Compare(a.Revision, b.Revision) })
		// Nothing is seen before what it follows.
		for i := len(stream) - 2; i >= 0; i-- {
			if stream[i].Seen.After(stream[i+1].Seen) {
				stream[i].Seen = stream[i+1].Seen
			}
		}
		ordered = append(ordered, stream...)
	}
	ordered = append(ordered, marks...)
	slices.SortStableFunc(ordered, func(a, b Entry) int { return a.Seen.Compare(b.Seen) })
	return ordered
}
