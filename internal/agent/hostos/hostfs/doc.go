// Package hostfs names the files of the host below a root directory: "/" in
// production, a temporary directory in tests. Any package of the agent may
// import it.
package hostfs
