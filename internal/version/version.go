package version

// Version is the release, for example v0.1.0. The linker sets it.
var Version = "v0.0.0-dev"
