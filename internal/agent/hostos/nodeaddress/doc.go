// Package nodeaddress tells which interfaces are the host's own, and chooses the addresses of its
// node by a rule that the operator can set. Interfaces are judged by routes, by what they are built on
// and by what the operator said; their names say nothing. It may be imported by the packages of the agent.
package nodeaddress
