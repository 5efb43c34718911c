// Package approval approves hosts in the name of the client's user, from the command line and
// from the console. What an approval means is internal/host's.
package approval
