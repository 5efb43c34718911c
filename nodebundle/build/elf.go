package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// libraryDirs are where the dynamic loader looks without a cache or an
// environment variable, on Debian's multi-arch layout and on others; an image
// has neither, so a library found elsewhere would not be found again inside it.
func libraryDirs(machine elf.Machine) []string {
	triplet := map[elf.Machine]string{elf.EM_X86_64: "x86_64-linux-gnu", elf.EM_AARCH64: "aarch64-linux-gnu"}[machine]
	var dirs []string
	for _, prefix := range []string{"/usr", ""} {
		if triplet != "" {
			dirs = append(dirs, filepath.Join(prefix, "/lib", triplet))
		}
		dirs = append(dirs, prefix+"/lib64", prefix+"/lib")
	}
	return dirs
}

// machineProgram returns the executable at source, its loader and all shared
// libraries it needs, at the same paths inside the image. Sources are resolved
// through symbolic links, so that every entry is a plain file.
func machineProgram(source string) ([]entry, error) {
	closure := map[string]string{} // image path without leading slash → file
	if err := addELF(closure, source, source); err != nil {
		return nil, fmt.Errorf("%s with its libraries: %w", source, err)
	}
	paths := make([]string, 0, len(closure))
	for p := range closure {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	entries := make([]entry, len(paths))
	for i, p := range paths {
		entries[i] = program(p, closure[p])
	}
	return entries, nil
}

// addELF adds the ELF file at source as imagePath, then what it names as its
// loader and its needed libraries, recursively.
func addELF(closure map[string]string, imagePath, source string) error {
	key := strings.TrimPrefix(imagePath, "/")
	if _, done := closure[key]; done {
		return nil
	}
	target, err := filepath.EvalSymlinks(source)
	if err != nil {
		return err
	}
	closure[key] = target
	f, err := elf.Open(target)
	if err != nil {
		return err
	}
	defer f.Close()
	loader, err := interpreter(f)
	if err != nil {
		return err
	}
	if loader != "" {
		if err := addELF(closure, loader, loader); err != nil {
			return err
		}
	}
	needed, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
	for _, soname := range needed {
		// The C library needs its own loader, which is there by its full path.
		if holds(closure, soname) {
			continue
		}
		lib, err := findLibrary(soname, f.Machine)
		if err != nil {
			return err
		}
		if err := addELF(closure, lib, lib); err != nil {
			return err
		}
	}
	return nil
}

func holds(closure map[string]string, soname string) bool {
	for p := range closure {
		if filepath.Base(p) == soname {
			return true
		}
	}
	return false
}

// interpreter returns the loader an executable asks for; libraries ask for none.
func interpreter(f *elf.File) (string, error) {
	for _, segment := range f.Progs {
		if segment.Type != elf.PT_INTERP {
			continue
		}
		name := make([]byte, segment.Filesz)
		if _, err := segment.ReadAt(name, 0); err != nil {
			return "", fmt.Errorf("loader's name: %w", err)
		}
		return strings.TrimRight(string(name), "\x00"), nil
	}
	return "", nil
}

func findLibrary(soname string, machine elf.Machine) (string, error) {
	dirs := libraryDirs(machine)
	for _, dir := range dirs {
		candidate := filepath.Join(dir, soname)
		_, err := os.Stat(candidate)
		if err == nil {
			return candidate, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("library %s is in none of %s", soname, strings.Join(dirs, ", "))
}
