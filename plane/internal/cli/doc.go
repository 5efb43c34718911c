// Package cli holds the commands of slipway that make and break planes and local hosts,
// one file each, and adds them to those of internal/cli, which work on any management
// cluster. A command reads its flags, calls the package that does the work and prints
// the result; it decides nothing itself.
//
// It is imported by cmd/slipway only and may import everything in the plane.
package cli
