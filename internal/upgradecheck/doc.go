// Package upgradecheck tries, from the management side, what an upgrade of a cluster would start: each program of the
// version gets the flags and the configuration that the cluster's objects have for it, in a way that cannot start
// anything (internal/startup).
package upgradecheck
