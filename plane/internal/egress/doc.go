// Package egress is the way from a plane to what other machines serve: the API servers of
// clusters whose control planes are on them. The plane's network namespace has no route
// out of it (see package network), and needs none: its controllers connect as client-go
// does behind any proxy, by HTTP CONNECT.
//
//	controllers ── HTTPS_PROXY ──> Proxy on 127.0.0.1 of the namespace
//	                                 └─ network.MachineDialer ──> 192.0.2.10:6443, from the machine
//
//	proxy.go        the proxy
//	dial.go         the same for this process, without the proxy
//	environment.go  what makes this process and its children use it, and no other
//	address.go      what no one is connected to: the loopback of the machine, and the metadata of clouds
//
// A plane has it only if it listens for other machines. It is imported by internal/cli; it
// imports internal/network.
package egress
