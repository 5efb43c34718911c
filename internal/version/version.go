package version

import "runtime/debug"

// Unset is the version of a binary that neither a linker nor a module has named.
const Unset = "v0.0.0-dev"

// Version is the release, for example v0.1.0. The linker sets it; a binary that
// `go install` built has the version of its module.
var Version = Unset

func init() {
	info, ok := debug.ReadBuildInfo()
	if ok && Version == Unset && info.Main.Sum != "" {
		Version = info.Main.Version
	}
}
