// Package service makes a plane a service of its machine: systemd runs `slipway serve`,
// starts it with the machine and again when it ends. A plane has one unit, by its name;
// what was chosen for the plane is in its state directory, so the unit names that and the
// program alone, and seldom changes.
//
//	unit.go     what the unit says, and how it is told from one that somebody else wrote
//	words.go    paths as unit files have them
//	machine.go  the units of a machine: installed, found, removed
//	control.go  what systemd is told, and what it says, through systemctl and journalctl
//
// It is imported by internal/cli, internal/planeclient and internal/up; it imports
// internal/durable and go-systemd's reader of unit files.
package service
