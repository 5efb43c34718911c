package judge

import (
	"slices"
	"testing"
)

func TestUnusedIn(t *testing.T) {
	get, list, watch := Right{"", "secrets", "get"}, Right{"", "secrets", "list"}, Right{"", "secrets", "watch"}
	rights := func(all ...Right) map[Right]bool {
		set := map[Right]bool{}
		for _, right := range all {
			set[right] = true
		}
		return set
	}
	for name, c := range map[string]struct {
		granted, used map[string]map[Right]bool
		want          []string
	}{
		"used where it is granted":         {granted: map[string]map[Right]bool{"a": rights(get)}, used: map[string]map[Right]bool{"a": rights(get)}},
		"used elsewhere":                   {granted: map[string]map[Right]bool{"a": rights(get)}, used: map[string]map[Right]bool{"b": rights(get)}, want: []string{"get secrets. in namespace a"}},
		"granted everywhere":               {granted: map[string]map[Right]bool{"": rights(get)}, used: map[string]map[Right]bool{"b": rights(get)}},
		"granted everywhere, used in none": {granted: map[string]map[Right]bool{"": rights(get)}, want: []string{"get secrets. in all namespaces"}},
		"granted everywhere, used where it is granted anyway": {
			granted: map[string]map[Right]bool{"": rights(get), "a": rights(get)}, used: map[string]map[Right]bool{"a": rights(get)}, want: []string{"get secrets. in all namespaces"},
		},
		"watched in all namespaces": {
			granted: map[string]map[Right]bool{"": rights(list, watch), "a": rights(watch)}, used: map[string]map[Right]bool{"": rights(watch), "a": rights(watch)},
		},
	} {
		if got := UnusedIn(c.granted, c.used); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
