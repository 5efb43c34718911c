package listener

import (
	"slices"
	"strings"
	"testing"
)

// TestBudget has connections come, each by its key, and names those that stay. An exclamation mark has data pass
// on a connection that is there.
func TestBudget(t *testing.T) {
	for name, test := range map[string]struct {
		limit      int
		come, stay string
	}{
		"below the limit": {4, "a1 b1 a2", "a1 a2 b1"},
		"one key may have all while there is no other": {4, "a1 a2 a3 a4", "a1 a2 a3 a4"},
		"of one key the one before":                    {2, "a1 a2 a3", "a2 a3"},
		"of the key with the most":                     {4, "b1 a1 a2 a3 c1", "a2 a3 b1 c1"},
		"of one that becomes the key with the most":    {3, "a1 b1 c1 b2", "a1 b2 c1"},
		"of all where none has more":                   {3, "a1 b1 c1 d1", "b1 c1 d1"},
		"a flood of one key takes nothing from others": {4, "a1 b1 c1 x1 x2 x3 x4", "a1 b1 c1 x4"},
		"the silent one before the older one":          {3, "a1 a2 a3 a1! a4", "a1 a3 a4"},
		"a single place":                               {1, "a1 b1 b2", "b2"},
	} {
		b := budget{limit: test.limit}
		byName := map[string]*conn{}
		var stay []string
		for i, n := range strings.Fields(test.come) {
			if n, ok := strings.CutSuffix(n, "!"); ok {
				byName[n].active.Store(int64(i))
				continue
			}
			c := &conn{}
			c.active.Store(int64(i))
			byName[n], stay = c, append(stay, n)
			gone := b.add(c, n[:1])
			stay = slices.DeleteFunc(stay, func(n string) bool { return byName[n] == gone })
		}
		slices.Sort(stay)
		if got := strings.Join(stay, " "); got != test.stay {
			t.Errorf("%s: %s stay, want %s", name, got, test.stay)
		}
		for _, n := range stay {
			b.remove(byName[n])
		}
		if b.size != 0 || len(b.byKey) != 0 {
			t.Errorf("%s: %d connections of %d keys are counted after all have gone", name, b.size, len(b.byKey))
		}
	}
}
