package hostbundle

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/mod/sumdb/note"
)

const agentVersion = "v0.9.1"

// layoutWithAgent has the agent beside a Kubernetes version.
func layoutWithAgent(t *testing.T, signer note.Signer) string {
	t.Helper()
	dir, program := filepath.Join(t.TempDir(), "layout"), filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(dir, signer)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Contents{
		{KubernetesVersion: newer, Architecture: "amd64"}, {AgentVersion: agentVersion, Architecture: "amd64"},
	} {
		component, err := w.Component(AgentProgram, "v1.0.0", []Source{{Path: AgentProgram, From: program, Mode: 0o755}})
		c.Components = []Component{component}
		if err := errors.Join(err, w.Bundle(c.Tag(), c)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAgent(t *testing.T) {
	signer, keys := newKeys(t)
	d, err := OpenDirectory(layoutWithAgent(t, signer))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.Versions(), []string{newer}) || !slices.Equal(d.Tags(), []string{newer, "slipway-agent-v0.9.1"}) {
		t.Errorf("versions %q, tags %q", d.Versions(), d.Tags())
	}
	b, err := d.Bundle(AgentTag(agentVersion), "amd64", keys)
	if err != nil || b.AgentVersion != agentVersion || b.KubernetesVersion != "" {
		t.Fatalf("%+v, %v", b, err)
	}
	if found, err := unpackAll(b); err != nil || found["slipway-agent/slipway-agent"] != "a program" {
		t.Errorf("%q, %v", found, err)
	}
	store := Store{Dir: filepath.Join(t.TempDir(), "store")}
	if _, err := store.Load(d, &keys, AgentTag(agentVersion)); err != nil {
		t.Fatal(err)
	}
	if there, err := store.List(); err != nil || len(there) != 1 || there[0].Tag != AgentTag(agentVersion) {
		t.Errorf("%+v, %v", there, err)
	}
}

// What is signed as the agent passes neither for Kubernetes nor for another version of it, and the
// other way round, whoever changes the names in the layout.
func TestAgentIsNotKubernetes(t *testing.T) {
	signer, keys := newKeys(t)
	for _, names := range [][2]string{
		{AgentTag(agentVersion), "v1.37.0"}, {newer, AgentTag("v0.9.2")}, {AgentTag(agentVersion), AgentTag("v0.9.2")},
	} {
		d, err := OpenDirectory(layoutWithAgent(t, signer))
		if err != nil {
			t.Fatal(err)
		}
		for i := range d.index.Manifests {
			if m := &d.index.Manifests[i]; m.Annotations[ocispec.AnnotationRefName] == names[0] {
				m.Annotations[ocispec.AnnotationRefName] = names[1]
			}
		}
		if _, err := d.Bundle(names[1], "amd64", keys); reason(err) != ReasonUntrusted || !strings.Contains(err.Error(), Title(names[1])) {
			t.Errorf("%s as %s: %v", names[0], names[1], err)
		}
	}
}

// Whoever has a key brings one program by a bundle of the agent, and nothing else.
func TestValidateAgent(t *testing.T) {
	valid := func() Contents {
		return Contents{AgentVersion: agentVersion, Architecture: "amd64",
			Components: []Component{{Name: AgentProgram, Version: agentVersion, Files: []File{{Path: AgentProgram, Digest: digest.FromString("")}}}}}
	}
	if err := valid().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Contents){
		"no version":        func(c *Contents) { c.AgentVersion = "latest" },
		"Kubernetes, too":   func(c *Contents) { c.KubernetesVersion = newer },
		"no component":      func(c *Contents) { c.Components = nil },
		"another component": func(c *Contents) { c.Components[0].Name = "kubernetes" },
		"another file":      func(c *Contents) { c.Components[0].Files[0].Path = "sh" },
		"one more file": func(c *Contents) {
			c.Components[0].Files = append(c.Components[0].Files, File{Path: "b", Digest: digest.FromString("")})
		},
		"one more component": func(c *Contents) { c.Components = append(c.Components, Component{Name: "b"}) },
		"setuid":             func(c *Contents) { c.Components[0].Files[0].Mode = 0o4755 },
		"a file of the host": func(c *Contents) { c.Files = []HostFile{{Path: "/etc/a"}} },
		"a link": func(c *Contents) {
			c.Links = []Link{{Path: "/usr/local/bin/a", Component: AgentProgram, Target: AgentProgram}}
		},
		"a unit":       func(c *Contents) { c.Units = []string{"a.service"} },
		"a module":     func(c *Contents) { c.Modules = []string{"overlay"} },
		"a directory":  func(c *Contents) { c.Directories = []string{StateDirectory + "/a"} },
		"a shared one": func(c *Contents) { c.SharedDirectories = []string{"/etc/a"} },
	} {
		c := valid()
		if spoil(&c); c.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	w, err := NewWriter(filepath.Join(t.TempDir(), "layout"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Bundle(newer, valid()); err == nil || !strings.Contains(err.Error(), "the contents are of slipway-agent v0.9.1, and the bundle of Kubernetes "+newer) {
		t.Errorf("err = %v", err)
	}
}
