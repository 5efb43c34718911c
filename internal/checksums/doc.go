// Package checksums signs the list of the files of a release, and compares files with a
// signed list.
//
// The list is SHA256SUMS, as sha256sum writes it; SHA256SUMS.note beside it is a signed note
// of golang.org/x/mod/sumdb/note (Ed25519) with the version and the same list, as host bundles
// have them. Trust goes one way: a public key, the note, the digests in it.
//
// It imports that library, and nothing of this repository.
package checksums
