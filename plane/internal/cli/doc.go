// Package cli holds the commands of slipway, one file each. A command reads its
// flags, calls the package that does the work and prints the result; it decides
// nothing itself.
//
// It is imported by cmd/slipway only and may import everything in the plane.
package cli
