// Package snapshot reads the objects of a management cluster, kind by kind, with the rights of
// its user. doctor, status and the console work on what it read.
//
// It imports the API types.
package snapshot
