// Package upstream makes host bundles of upstream's own binaries and images.
//
//	Plan     which files a version consists of, and where their checksums and signatures are (pure)
//	Resolver verifies each of them once, and writes a Lock
//	Lock     address, size and digest of each file, and how it was verified
//	Fetcher  reads what a lock names from upstream, mirrors or a directory, and keeps only what has its digest
//	Pack     makes the bundle of a lock from what was fetched, the same bytes each time
//
// It may import hostbundle and its packages. Signatures are verified by whoever calls Resolver:
// the library for them is a dependency of slipway-bundle alone.
package upstream
