package main

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// dynamicProgram is a program of every Linux machine, linked dynamically.
const dynamicProgram = "/bin/sh"

func TestMachineProgramBringsItsLoaderAndLibraries(t *testing.T) {
	f, err := elf.Open(dynamicProgram)
	if err != nil {
		skip(t, "no ELF program to look at:", err)
	}
	defer f.Close()
	loader, err := interpreter(f)
	if err != nil || loader == "" {
		skip(t, dynamicProgram, "is linked statically:", err)
	}
	needed, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := machineProgram(dynamicProgram)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, filepath.Base(e.path))
		info, err := os.Lstat(e.source)
		if err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s comes from %s, which is not a plain file (%v)", e.path, e.source, err)
		}
	}
	for _, want := range append(needed, filepath.Base(loader), filepath.Base(dynamicProgram)) {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %v", want, names)
		}
	}
}

func TestFindLibraryNamesWhatIsMissing(t *testing.T) {
	_, err := findLibrary("libslipway-absent.so.1", elf.EM_X86_64)
	if err == nil || !strings.Contains(err.Error(), "libslipway-absent.so.1") {
		t.Errorf("got %v, want an error that names the library", err)
	}
}

func TestGoBuildID(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if id, err := goBuildID(self); err != nil || id == "" {
		t.Errorf("got %q, %v for a Go program", id, err)
	}
	if _, err := goBuildID(dynamicProgram); err == nil {
		t.Error("a C program was taken for a Go one")
	}
}

func TestParseNoteRefusesACutNote(t *testing.T) {
	note := slices.Concat([]byte{4, 0, 0, 0, 9, 0, 0, 0, 4, 0, 0, 0}, []byte("Go\x00\x00abc"))
	if _, err := parseNote(note, binary.LittleEndian, "p"); !errors.Is(err, errNoBuildID) {
		t.Errorf("got %v, want %v", err, errNoBuildID)
	}
	if id, err := parseNote(append(note, "defghi"...), binary.LittleEndian, "p"); err != nil || id != "abcdefghi" {
		t.Errorf("got %q, %v for the complete note", id, err)
	}
}

func TestModuleVersion(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if v, err := moduleVersion(self, "github.com/google/go-containerregistry"); err != nil || !strings.HasPrefix(v, "v") {
		t.Errorf("got %q, %v for a module that is built in", v, err)
	}
	if _, err := moduleVersion(self, "k8s.io/kubernetes"); err == nil {
		t.Error("a module that is not built in has a version")
	}
}
