// Package logins knows who may log in to the host and act as its administrator: accounts,
// their SSH keys, members of groups, rules of sudo. Read takes a snapshot before a
// bootstrap, Changes tells what the bootstrap made of it, Undo takes that back, and Left
// says what of it is still there:
//
//	Read ── baseline ──> bootstrap ──> Changes ── journal ──> Undo ── Left
//
// Only what changed while a bootstrap ran counts as its doing: an account that the
// operator makes while the host is a node is the operator's. Digests stand for keys and
// passwords. Accounts of a directory service are not the host's and not looked at.
//
// It may be imported by the packages of effects.
package logins
