package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flannel-io/flannel/pkg/subnet"
	"sigs.k8s.io/yaml"
)

func TestInstallFileReplacesTheTarget(t *testing.T) {
	dir := t.TempDir()
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "net.d", "10-flannel.conflist")
	if err := os.Mkdir(filepath.Dir(target), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"first", "second"} {
		if err := os.WriteFile(source, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := installFile(source, target); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(target); string(got) != content {
			t.Errorf("got %q, want %q", got, content)
		}
	}
	if info, _ := os.Stat(target); info.Mode().Perm() != 0o644 {
		t.Errorf("got mode %v, want 0644", info.Mode())
	}
	if left, _ := os.ReadDir(filepath.Dir(target)); len(left) != 1 {
		t.Errorf("%d files are left beside the target", len(left)-1)
	}
}

func TestInstallFileKeepsTheTargetWithoutASource(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := installFile(filepath.Join(dir, "absent"), target); err == nil {
		t.Error("a missing source went unnoticed")
	}
	if got, _ := os.ReadFile(target); string(got) != "old" {
		t.Errorf("got %q, want the old content", got)
	}
}

// The manifest is written by hand; this holds it to what this program accepts.
func TestManifestFitsThisProgram(t *testing.T) {
	raw, err := os.ReadFile("../../templates/local/flannel.yaml")
	if err != nil {
		t.Fatal(err)
	}
	configured := false
	for _, document := range strings.Split(string(raw), "\n---\n") {
		var object struct {
			Kind string
			Data map[string]string
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if object.Kind != "ConfigMap" {
			continue
		}
		config, err := subnet.ParseConfig(object.Data["net-conf.json"])
		if err != nil {
			t.Fatal(err)
		}
		configured = config.EnableNFTables && config.BackendType == "host-gw"
	}
	if !configured {
		t.Error("the manifest does not ask for host-gw on nftables")
	}
}
