// Package trust acts against a management cluster with the manifests of a release as
// those would who must not get further than their rights: the agent of another host, the
// agent of a host that was replaced, the thief of an enrollment token, a tenant, a
// decider, the author of a policy, and somebody without credentials. It lists every
// right each of them has, and has each try to read, write, forge and delay what is not
// theirs. docs/security.md names the boundaries. Nothing may import it.
package trust
