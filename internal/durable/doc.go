// Package durable changes files so that a power cut leaves the old or the new state, never a
// mixture. A function that returns without an error has its effect on the disk, and each may be
// repeated after any part of it was done. Nothing else renames or syncs files by hand;
// test/imports holds that and names the exceptions. It imports the standard library and golang.org/x/sys only.
//
// Write suits files that several processes may write. Replace, Link and WriteJSON prepare the
// file under the name that Staged returns, which the next try overwrites and Remove takes away:
// they need a single writer, and leave nothing behind that nobody finds again.
//
// These functions take paths whose directories only root, or the user of the process, can write to.
// Below a directory of somebody else, such as a user's, WithParent and its kin open one
// directory after the other, and a Dir changes entries by their names: nobody leads root elsewhere by
// a symbolic link, or by a directory that is swapped between a check and its use. Nothing else changes
// owners or permissions by path.
//
// Tests cut the power with Intercept; see internal/testenv/powercut.
package durable
