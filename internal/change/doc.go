// Package change does what people request of hosts and clusters, in the name of the client's user,
// from the command line and from the console. What a request means is internal/host's.
package change
