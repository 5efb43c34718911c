// Package hosthooks calls the hooks of this provider: BeforeHostClaim and
// AfterHostRelease.
//
//	BeforeHostClaim    before the write that gives a host to a machine
//	AfterHostRelease   once a host is clean of its last claim, before the next
//
// Both block. A hook that cannot be called blocks as well, unless its failure
// policy is Ignore: what it guards is not known to be safe. That AfterHostRelease
// is due is an annotation of the Host, written together with the end of the claim,
// so that neither a crash nor `clusterctl move` loses it.
//
// The package may import the API packages and the SDK. Controllers use it.
package hosthooks
