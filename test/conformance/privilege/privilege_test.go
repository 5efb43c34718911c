package privilege

import (
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

func TestMain(m *testing.M) { judge.Main(m, "../../../bin") }

// TestLifecycleEngine judges what the engine may do by what it does.
func TestLifecycleEngine(t *testing.T) {
	level.Deep(t)
	e := startEngine(t)
	e.create(policies)
	for _, part := range []struct {
		name string
		live func(*engine, *testing.T)
	}{
		{"allowed nothing in a namespace until somebody grants it", (*engine).granted},
		{"created upon the word of a decider", (*engine).created},
		{"given its network", (*engine).initialized},
		{"upgrades called off, and the policy deleted", (*engine).calledOff},
		{"tested by a Job after its upgrade", (*engine).upgraded},
		{"exported before it is deleted", (*engine).deleted},
		{"metrics are served to who may read them", (*engine).measured},
		{"out of reach, and in nobody's way", (*engine).unreached},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			in := *e
			in.t = t
			part.live(&in, t)
		}) {
			for _, line := range e.Logged("rror") {
				t.Log(line)
			}
			return
		}
	}
	for _, line := range e.Logged("is forbidden: User") {
		t.Errorf("a right is missing: %s", line)
	}
	used, err := e.UsedIn(e.subject)
	if err != nil {
		t.Fatal(err)
	}
	used[""][judge.Right{Group: "lifecycle.slipway.dev", Resource: "lifecyclepolicies", Verb: "unguard"}] = true // the admission policy of Namespaces asks for it
	granted, err := e.GrantedIn(t.Context(), e.subject)
	if err != nil {
		t.Fatal(err)
	}
	for _, right := range judge.UnusedIn(granted, used) {
		t.Errorf("%s is granted and never used", right)
	}
}
