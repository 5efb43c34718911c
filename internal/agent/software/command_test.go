package software

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

func TestCommand(t *testing.T) {
	dir, _ := layout(t, runtime.GOARCH)
	key := filepath.Join(filepath.Dir(dir), "key.pub")
	root := string(hostRoot(t))
	run := func(args ...string) (string, string, error) {
		var out, log bytes.Buffer
		err := Command(t.Context(), args, &out, &log, nil)
		return out.String(), log.String(), err
	}
	out, log, err := run("install", "--from", dir, "--public-key", key, "--root", root)
	if err != nil || !strings.Contains(out, "Kubernetes v1.36.3 is installed") || !strings.Contains(log, "[3/3] ") || strings.Contains(log, "\x1b") {
		t.Errorf("install: %q, %q, %v", out, log, err)
	}
	out, _, err = run("list", "-o", "json", "--root", root)
	var listed struct {
		Releases []struct {
			KubernetesVersion, State string
			Components               map[string]string
		}
	}
	if jsonErr := json.Unmarshal([]byte(out), &listed); errors.Join(err, jsonErr) != nil || len(listed.Releases) != 1 ||
		listed.Releases[0].KubernetesVersion != newer || listed.Releases[0].State != "Installed" || listed.Releases[0].Components["containerd"] != "v2.4.2" {
		t.Errorf("list: %q: %v", out, err)
	}
	if out, _, err = run("uninstall", "--root", root, newer); err != nil || out != "The file system is as it was.\n" {
		t.Errorf("uninstall: %q: %v", out, err)
	}
	if out, _, err = run("list", "-o", "json", "--root", root); err != nil || strings.Join(strings.Fields(out), "") != `{"releases":[]}` {
		t.Errorf("list of nothing: %q: %v", out, err)
	}
}

func TestCommandRefuses(t *testing.T) {
	dir, _ := layout(t, "riscv64")
	key := filepath.Join(filepath.Dir(dir), "key.pub")
	otherDir, _ := layout(t, runtime.GOARCH)
	root := string(hostRoot(t))
	for name, tt := range map[string]struct {
		args []string
		want error
		text string
	}{
		"no command":    {nil, flag.ErrHelp, ""},
		"another":       {[]string{"upgrade"}, ErrUsage, "use install, list or uninstall"},
		"no key":        {[]string{"install", "--from", dir}, ErrUsage, "--public-key"},
		"argument":      {[]string{"install", newer}, ErrUsage, newer},
		"unknown flag":  {[]string{"list", "--all"}, ErrUsage, ""},
		"format":        {[]string{"list", "-o", "xml", "--root", root}, ErrUsage, "xml"},
		"relative root": {[]string{"list", "--root", "here"}, ErrUsage, "absolute"},
	} {
		var out, log bytes.Buffer
		if err := Command(t.Context(), tt.args, &out, &log, nil); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: want %v with %q, got %v", name, tt.want, tt.text, err)
		}
	}
	for name, tt := range map[string]struct {
		from, key string
		want      hostbundle.Reason
	}{
		"architecture": {dir, key, hostbundle.ReasonWrongArchitecture},
		"signature":    {otherDir, key, hostbundle.ReasonUntrusted},
		"no layout":    {t.TempDir(), key, hostbundle.ReasonNotFound},
	} {
		var out, log bytes.Buffer
		var bad *hostbundle.Error
		err := Command(t.Context(), []string{"install", "--from", tt.from, "--public-key", tt.key, "--root", root}, &out, &log, nil)
		if !errors.As(err, &bad) || bad.Reason != tt.want {
			t.Errorf("%s: want %s, got %v", name, tt.want, err)
		}
		if _, err := os.Stat(filepath.Join(root, "opt", "slipway")); err == nil {
			t.Fatalf("%s: something was written", name)
		}
	}
}
