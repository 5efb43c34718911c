// Package instance knows the state directory of a plane: which files are where,
// and what was chosen when it was made (name, ports, speed). Everything of a
// plane is inside that directory but for its network namespace and cgroups,
// which carry its name.
//
//	instance.go  what was chosen
//	dir.go       the directory: which may be one, and how it is removed
//	listen.go    where hosts on other machines reach the plane
//	network.go   where the plane and its API server are in the hosts' network
//	lock.go      one command at a time
//	owner.go     one plane for a name
//
// It is imported by the commands and by internal/up.
package instance
