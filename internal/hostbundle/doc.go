// Package hostbundle reads and writes host bundles: what a Linux host needs to become a
// node of one Kubernetes version, or a version of slipway-agent, as an OCI image layout that
// is verified offline.
//
//	index.json                 names bundles and signatures; nothing in it is trusted
//	├─ index of one tag        what a signature vouches for, by its digest
//	│  └─ manifest of one architecture
//	│     ├─ config            Contents: every file with its digest, every change of the host
//	│     └─ layers            one component each, tar with zstd, shared between versions
//	└─ signature               an artifact whose subject is the index; its layer is a signed note
//
// Trust goes one way: a public key, the signed note, the digest of the index, the
// digests in it. Directory.Bundle returns only what was followed that way, and
// Bundle.Unpack compares every byte of a component before it returns.
//
// SignRelease and VerifyRelease do the same for the files of a release: the list is SHA256SUMS, as
// sha256sum writes it, and SHA256SUMS.note beside it is a signed note with the version and the list.
//
// Signatures are signed notes of golang.org/x/mod/sumdb/note (Ed25519), as the Go
// checksum database has them. The package imports that library, OCI's own types and
// digests and a decompressor, and nothing of this repository.
package hostbundle
