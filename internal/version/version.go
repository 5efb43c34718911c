package version

import "runtime/debug"

// unset is the version of a binary that neither a linker nor a module has named.
const unset = "v0.0.0-dev"

// Version is the release, for example v0.1.0. The linker sets it; a binary that
// `go install` built has the version of its module.
var Version = unset

func init() {
	info, ok := debug.ReadBuildInfo()
	if ok && Version == unset && info.Main.Sum != "" {
		Version = info.Main.Version
	}
}
