package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/versions"
)

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"add"}, {"add", "1.37.2"}, {"other", "v1.37.2"}, {"pin", "v1.37.2", "v1.38.0"}} {
		if err := run(args); err == nil || err.Error() != errUsage.Error() {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// The minor version of the plane is that of all modules of the workspace, and not one of these files.
func TestThePlanesVersionIsNotPinnedHere(t *testing.T) {
	t.Chdir("../..")
	plane := versions.Plane().Version
	for _, command := range []string{"pin", "remove"} {
		if err := run([]string{command, plane}); err == nil || !strings.Contains(err.Error(), "the minor version of the plane") {
			t.Errorf("%s %s: %v", command, plane, err)
		}
	}
}

func TestStringsOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "constants.go")
	content := "package constants\n\nconst (\n\t// of etcd\n\tDefaultEtcdVersion = \"3.7.0-0\"\n\tA, B = 1, \"b\"\n\tC = B\n)\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := stringsOf(file)
	if err != nil || len(got) != 2 || got["DefaultEtcdVersion"] != "3.7.0-0" || got["B"] != "b" {
		t.Errorf("got %v, %v", got, err)
	}
}

// What went is told with the files of Slipway that have it as a word.
func TestUsesAreWords(t *testing.T) {
	u := usage{"a.yaml": "--feature-gates=Gone=true", "b.go": `"pod-infra-container-image"`, "c.go": "GoneNot, --gone-too, NotGone"}
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"Gone"}, "`a.yaml`"},
		{[]string{"--gone", `"gone"`}, "no"},
		{[]string{"--pod-infra-container-image", `"pod-infra-container-image"`}, "`b.go`"},
	} {
		if got := u.of(c.words...); got != c.want {
			t.Errorf("%q: got %s, want %s", c.words, got, c.want)
		}
	}
	if got := gone(map[string]int{"b": 1, "a": 1, "c": 1}, map[string]int{"c": 2, "d": 1}); strings.Join(got, " ") != "a b" {
		t.Errorf("gone are %v", got)
	}
}
