// Package instance knows the state directory of a plane: which files are where,
// and what was chosen when it was made (name, ports, speed). Everything of a
// plane is inside that directory but for its network namespace and cgroups,
// which carry its name.
//
// It is imported by the commands and by internal/up.
package instance
