package service

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

var write = flag.Bool("write", false, "write the unit files in testdata instead of comparing them")

func unitOf(program string) Unit {
	return Unit{Plane: "slipway", Program: program, StateDir: "/var/lib/slipway"}
}

func TestRender(t *testing.T) {
	beside := unitOf("/usr/local/bin/slipway")
	beside.Plane, beside.StateDir, beside.Beside = "other", "/var/lib/other", "slipway"
	for _, u := range []Unit{unitOf("/usr/local/bin/slipway"), beside} {
		text, err := u.Render()
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", NameOf(u.Plane))
		if *write {
			if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if text != string(want) {
			t.Errorf("%s differs; go test -args -write writes it:\n%s", golden, text)
		}
		if dir, ok := stateDirOf(text); !ok || dir != u.StateDir {
			t.Errorf("read back the state directory %q, %t", dir, ok)
		}
	}
}

// systemd itself says whether it can run the unit, and which program it would.
func TestSystemdTakesTheUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		rights.Skip(t, "needs systemd-analyze, of Debian's package systemd")
	}
	for _, name := range []string{"plain", "with space", "100%n", "$HOME ${PATH} $$", "grün-日本", "semi;colon #hash", "-dash", "@at:!+"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			program := filepath.Join(dir, "slipway")
			verify := func() string {
				text, err := unitOf(program).Render()
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(t.TempDir(), NameOf("slipway"))
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path)
				cmd.Env = append(os.Environ(), "SYSTEMD_LOG_LEVEL=warning")
				out, _ := cmd.CombinedOutput()
				return string(out)
			}
			if out := verify(); !strings.Contains(out, "Command "+program+" is not executable") {
				t.Errorf("systemd does not look for %s: %s", program, out)
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			if out := verify(); out != "" {
				t.Errorf("systemd complains: %s", out)
			}
		})
	}
}

// What would be another line of the file, or what systemd runs no program from.
func TestPathsThatSystemdRefuses(t *testing.T) {
	for _, path := range []string{"", "bin/slipway", "/a\nExecStartPre=/bin/evil/slipway", "/a\tb/slipway", `/a"b/slipway`, "/a'b/slipway", `/a\b/slipway`, "/a\xffb/slipway"} {
		var refused *PathError
		if text, err := unitOf(path).Render(); !errors.As(err, &refused) || refused.Path != path {
			t.Errorf("%q: %v\n%s", path, err, text)
		}
		u := unitOf("/usr/local/bin/slipway")
		u.StateDir = path
		if text, err := u.Render(); !errors.As(err, &refused) {
			t.Errorf("state directory %q: %v\n%s", path, err, text)
		}
	}
}

func TestArgumentsAreNotExpanded(t *testing.T) {
	if got, want := argument("/a $b/100%"), `"/a $$b/100%%"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWhoseUnitItIs(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"[Service]\nExecStart=/x\n":    "",
		"[X-Slipway]\n":                "",
		"[X-Slipway]\nStateDir=\n":     "",
		"[X-Other]\nStateDir=/s\n":     "",
		"[Service]\nStateDir=/s\n":     "",
		"StateDir=/s\n":                "",
		"[X-Slipway]\nStateDir=/s\n":   "/s",
		"#\n[X-Slipway]\nStateDir= /s": "/s",
	} {
		if dir, ok := stateDirOf(text); dir != want || ok != (want != "") {
			t.Errorf("%q: %q, %t, want %q", text, dir, ok, want)
		}
	}
}
