// Package extensionproject makes the project of a new runtime extension: what
// `slipway extension init` writes.
//
// Render plans the files from embedded templates and writes nothing, Write makes them in
// a folder that is empty or does not exist. The package is imported by internal/cli and
// may import the SDK for the hooks there are.
package extensionproject
