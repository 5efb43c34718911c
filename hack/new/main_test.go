package main

import "testing"

func TestOnlyWhatItKnowsIsWritten(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{}, {"check"}, {"check", ""}, {"metric", "Pause"}, {"check", "Pause", "more"}} {
		if err := run(args); err == nil || err.Error() != "usage: new check|step-kind NAME" {
			t.Errorf("%q: got %v, want the usage", args, err)
		}
	}
}
