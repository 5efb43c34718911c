// Package registry runs a registry that nobody here wrote: CNCF Distribution, as Debian
// packages it, with TLS by a CA of its own and a password. Host bundles are brought into it
// as an administrator does, by a tool that knows OCI and nothing of Slipway, and fetched
// from it by slipway-agent.
//
// It is for tests that show where hosts have their software from, test/vm among them, and
// imports no package of the project but internal/testenv and test/live, and in its own test what writes
// small bundles.
package registry
