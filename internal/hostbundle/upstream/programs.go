package upstream

import (
	"archive/tar"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// machines are the architectures that Kubernetes publishes for Linux, as programs name them.
var machines = map[string]elf.Machine{
	"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390,
}

func architectures() []string { return slices.Sorted(maps.Keys(machines)) }

// maxProgram bounds what is unpacked of an archive for each program, in bytes.
const maxProgram = 1 << 30

// containerdPrograms are those of containerd's archive that a host runs.
var containerdPrograms = []string{"containerd", "containerd-shim-runc-v2", "ctr"}

// sources are the programs of a file, which has its digest. Those of an archive are unpacked into dir.
func (f File) sources(file, dir string) ([]hostbundle.Source, error) {
	var all []hostbundle.Source
	var err error
	switch f.Component {
	case componentKubernetes:
		all = []hostbundle.Source{{Path: f.program(), From: file, Mode: 0o755}}
	case componentRunc:
		all = []hostbundle.Source{{Path: componentRunc, From: file, Mode: 0o755}}
	case componentContainerd:
		all, err = unpack(file, dir, containerdPrograms)
	case componentCNI:
		all, err = unpack(file, dir, nil)
	default:
		err = fmt.Errorf("component %q is unknown", f.Component)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.URL, err)
	}
	for _, s := range all {
		if err := checkMachine(s.From, f.Architecture); err != nil {
			return nil, fmt.Errorf("%s: %s %w", f.URL, s.Path, err)
		}
	}
	return all, nil
}

// unpack writes programs of an archive into a directory: those that are named, or all that may be executed.
func unpack(archive, dir string, names []string) ([]hostbundle.Source, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	decompressed, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("want an archive of tar and gzip: %w", err)
	}
	found := map[string]string{}
	for files := tar.NewReader(decompressed); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("want an archive of tar and gzip: %w", err)
		}
		name := path.Base(header.Name)
		wanted := slices.Contains(names, name) || names == nil && header.Mode&0o100 != 0
		if header.Typeflag != tar.TypeReg || !wanted {
			continue
		}
		if header.Size > maxProgram {
			return nil, fmt.Errorf("%s has %d bytes, more than any program", header.Name, header.Size)
		}
		found[name] = filepath.Join(dir, name)
		if err := writeProgram(found[name], files); err != nil {
			return nil, err
		}
	}
	var all []hostbundle.Source
	for _, name := range slices.Sorted(maps.Keys(found)) {
		all = append(all, hostbundle.Source{Path: name, From: found[name], Mode: 0o755})
	}
	for _, name := range names {
		if found[name] == "" {
			return nil, fmt.Errorf("the archive has no %s", name)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the archive has no program")
	}
	return all, nil
}

func writeProgram(name string, content io.Reader) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// checkMachine holds that a program is one of Linux for the architecture.
func checkMachine(file, architecture string) error {
	program, err := elf.Open(file)
	var format *elf.FormatError
	if errors.As(err, &format) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("is not a program of Linux, and the lock wants one for %s: upstream or a mirror has another file in its place", architecture)
	}
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }()
	if program.Machine != machines[architecture] {
		return fmt.Errorf("is a program for %s, and the lock wants one for %s: upstream or a mirror has another architecture's file in its place",
			nameOf(program.Machine), architecture)
	}
	return nil
}

func nameOf(machine elf.Machine) string {
	for architecture, m := range machines {
		if m == machine {
			return architecture
		}
	}
	return machine.String()
}
