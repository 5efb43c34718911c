// Package command runs programs of the host, each in a session of its own and
// with a mark in its environment, so that what an interrupted run left behind
// can be found and ended. Any package of the agent may import it.
package command
