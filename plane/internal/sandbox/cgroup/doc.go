// Package cgroup gives each local host control groups of its own, on both
// versions of the kernel's interface:
//
//   - v1: a directory <controller>/<instance>/<host> in every mounted hierarchy;
//   - v2: <root>/<instance>/<host> in the unified hierarchy, with all controllers
//     enabled down to it, and a leaf below it for the host's own processes, since
//     a group with processes cannot hand controllers to its children, as the
//     kubelet wants to.
//
// A machine with v1 controllers and an empty cgroup2 mount ("hybrid") counts as
// v1. The group is the root of the host's cgroup namespace, in which the host
// mounts the same hierarchies again (Layout.Mounts).
//
// The package imports the standard library and x/sys only, for it is part of the
// sandbox's PID 1.
package cgroup
