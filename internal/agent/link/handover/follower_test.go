package handover

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

func follower(generation int64, busy bool) *Follower {
	return NewFollower(FollowerOptions{
		Namespace: "pool", HostName: "h", HostID: "key", Configured: "pool",
		Progress: func() (int64, bool) { return generation, busy }, Log: slog.New(slog.DiscardHandler),
	})
}

// A host goes when it is told to, and no machine has it.
func TestWhatTheHostSays(t *testing.T) {
	for name, tc := range map[string]struct {
		spec infrav1.HostSpec
		want string
	}{
		"nothing":             {infrav1.HostSpec{}, ""},
		"where it is":         {infrav1.HostSpec{AssignedNamespace: "pool"}, ""},
		"elsewhere":           {infrav1.HostSpec{AssignedNamespace: "team-a"}, "team-a"},
		"elsewhere, and busy": {infrav1.HostSpec{AssignedNamespace: "team-a", Claim: &infrav1.HostClaim{}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := follower(0, false)
			f.Served(&infrav1.Host{Spec: tc.spec})
			if got, _ := f.wish(); got != tc.want {
				t.Errorf("it wants to %q, want %q", got, tc.want)
			}
		})
	}
}

// A word that is taken back ends what was begun.
func TestTakenBack(t *testing.T) {
	f := follower(0, false)
	f.Served(&infrav1.Host{Spec: infrav1.HostSpec{AssignedNamespace: "team-a"}})
	_, changed := f.wish()
	f.Served(&infrav1.Host{Spec: infrav1.HostSpec{AssignedNamespace: "team-a"}, Status: infrav1.HostStatus{BootID: "again"}})
	select {
	case <-changed:
		t.Fatal("the same word counts as another one")
	default:
	}
	f.Served(&infrav1.Host{})
	select {
	case <-changed:
	default:
		t.Fatal("nobody hears that it is taken back")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := f.Run(ctx); got != "" {
		t.Errorf("it went to %s", got)
	}
}

// The Host there must be this machine's, and not of an earlier time.
func TestMayGo(t *testing.T) {
	for name, tc := range map[string]struct {
		there      infrav1.HostSpec
		generation int64
		busy       bool
		may        bool
		refusal    string
	}{
		"its own":               {there: infrav1.HostSpec{HostID: "key"}, may: true},
		"as often claimed":      {there: infrav1.HostSpec{HostID: "key", ClaimGeneration: 3}, generation: 3, may: true},
		"another machine's":     {there: infrav1.HostSpec{HostID: "other"}, refusal: "is of another machine"},
		"of an earlier time":    {there: infrav1.HostSpec{HostID: "key", ClaimGeneration: 2}, generation: 3, refusal: "this machine has served 3"},
		"an operation at work":  {there: infrav1.HostSpec{HostID: "key"}, busy: true},
		"itself on its way out": {there: infrav1.HostSpec{HostID: "key", AssignedNamespace: "pool"}},
	} {
		t.Run(name, func(t *testing.T) {
			there := &infrav1.Host{Spec: tc.there}
			there.Namespace, there.Name = "team-a", "h"
			may, err := follower(tc.generation, tc.busy).mayGo(there)
			if may != tc.may || (err == nil) != (tc.refusal == "") || err != nil && !strings.Contains(err.Error(), tc.refusal) {
				t.Errorf("may go: %v, %v", may, err)
			}
		})
	}
}
