package main

import (
	"debug/buildinfo"
	"os"
	"path/filepath"
	"testing"
)

// Every module that this test is linked from has licences that are known, as the modules
// of a release must have.
func TestLicences(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	from, err := findSources(t.Context(), "..")
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Deps) < 5 {
		t.Fatalf("the test is linked from %d modules", len(info.Deps))
	}
	want := map[string]string{standardLibrary: "BSD-3-Clause", ownModule: "Apache-2.0", "github.com/CycloneDX/cyclonedx-go": "Apache-2.0", "golang.org/x/mod": "BSD-3-Clause"}
	check := func(path, version string) {
		component, err := library(from, path, version)
		if err != nil {
			t.Error(err)
			return
		}
		if id := (*component.Licenses)[0].License.ID; want[path] != "" && id != want[path] {
			t.Errorf("%s has the licence %s, want %s", path, id, want[path])
		}
		delete(want, path)
	}
	check(standardLibrary, info.GoVersion)
	check(ownModule+"/cmd/slipway-manager", "v0.1.0")
	check(ownModule, "v0.1.0")
	for _, m := range info.Deps {
		check(m.Path, m.Version)
	}
	if len(want) > 0 {
		t.Errorf("not among the modules: %v", want)
	}
}

// What is no licence is none, and a module without one cannot be released.
func TestNoLicence(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"LICENSE": "All rights reserved. Ask first.", "README": "Apache License, Version 2.0"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if licences, err := licencesOf(dir); err == nil {
		t.Errorf("licences %v", *licences)
	}
}
