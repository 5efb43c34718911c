package selfupdate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// nextSuffix ends the name of a program beside the one that runs; partSuffix that of one
	// that is not whole yet.
	nextSuffix = ".next"
	partSuffix = ".next.part"
)

// packaged are where package managers put programs. What they put there they replace.
var packaged = []string{"/usr/bin/", "/usr/sbin/", "/bin/", "/sbin/"}

// Program is the path of this agent; empty where the system does not tell.
func Program() string {
	path, err := os.Executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return ""
	}
	return path
}

// Replaceable says whether an agent of a version can take the place of its own program: it
// knows what is newer, and the program is nobody else's.
func Replaceable(program, version string) bool {
	foreign := slices.ContainsFunc(packaged, func(dir string) bool { return strings.HasPrefix(program, dir) })
	return versioned(version) && filepath.IsAbs(program) && !foreign && unix.Access(filepath.Dir(program), unix.W_OK) == nil
}

func (u *Updater) next() string { return u.options.Program + nextSuffix }
func (u *Updater) part() string { return u.options.Program + partSuffix }
