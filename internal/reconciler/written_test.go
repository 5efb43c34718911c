package reconciler_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/internal/reconciler"
)

func TestWritten(t *testing.T) {
	at := func(version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "o", ResourceVersion: version}}
	}
	type write struct{ before, after, value string }
	for name, tc := range map[string]struct {
		writes []write
		// lacking are the versions at which the cache lacks what was written last, known others.
		lacking, known []string
	}{
		"nothing":                       {known: []string{"1"}},
		"one write":                     {[]write{{"1", "2", "a"}}, []string{"1"}, []string{"2", "3"}},
		"one that changed nothing":      {[]write{{"1", "1", "a"}}, nil, []string{"1"}},
		"a row":                         {[]write{{"1", "2", "a"}, {"2", "3", "b"}}, []string{"1", "2"}, []string{"3"}},
		"without a lock, from an old":   {[]write{{"1", "2", "a"}, {"1", "3", "b"}}, []string{"1", "2"}, []string{"3"}},
		"from an old, changing nothing": {[]write{{"1", "2", "a"}, {"1", "2", "b"}}, []string{"1"}, []string{"2"}},
		"after somebody else":           {[]write{{"1", "2", "a"}, {"5", "6", "b"}}, []string{"5"}, []string{"1", "2", "6"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, versions := range []struct {
				of   []string
				want bool
			}{{tc.lacking, true}, {tc.known, false}} {
				for _, version := range versions.of {
					var w reconciler.Written[string]
					for _, write := range tc.writes {
						w.Note(at(write.before), at(write.after), write.value)
					}
					value, lacking := w.Over(at(version))
					if lacking != versions.want || lacking && value == "" || !lacking && value != "" {
						t.Errorf("version %s: %q, %t", version, value, lacking)
					}
					if _, again := w.Over(at(version)); again != versions.want {
						t.Errorf("version %s, asked again: %t", version, again)
					}
				}
			}
		})
	}
	var w reconciler.Written[string]
	w.Note(at("1"), at("2"), "a")
	w.Note(at("1"), at("3"), "b")
	if value, _ := w.Over(at("2")); value != "b" {
		t.Errorf("the last value is %q", value)
	}
	// A cache that showed another version is ahead.
	w.Over(at("9"))
	if _, lacking := w.Over(at("1")); lacking {
		t.Error("what the cache has shown is waited for")
	}
}
