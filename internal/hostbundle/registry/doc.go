// Package registry fetches host bundles from where OCI artifacts are: a registry of the
// user's, or a management cluster that serves bundles in the same way.
//
// Repository.Stage downloads what describes a bundle, and its signatures, into a
// hostbundle.Staging; once that was verified, Repository.Blob brings the content, blob by blob. A blob
// goes on where it was after a network cut, a kill or a power cut, at another registry, too: it is
// known only by its digest.
//
// File fetches a file of an upstream release in the same way.
//
// Requests, authentication and the API of referrers are those of oras-go. The package adds
// what a host needs: ranges, patience with a server that is busy, TLS or nothing.
package registry
