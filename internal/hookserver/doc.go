// Package hookserver serves the hooks of a manager: an extension server of the SDK with
// the certificates of a Deployment, that answers only who has a client certificate of
// Cluster API, in every replica, once the caches are filled.
//
// It imports the SDK and nothing else of this repository. Packages that put a manager
// together import it.
package hookserver
