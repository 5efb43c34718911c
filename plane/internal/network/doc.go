// Package network is the network of one Slipway instance: a network namespace of
// its own, pinned at /run/netns/<instance> so that `ip netns exec` sees it too,
// with one bridge that all local hosts hang on.
//
//	machine's namespace            namespace <instance>           host
//	127.0.0.1:36443 ── Gather ───> 10.88.0.1 (br0) ── h-host-1 ═ eth0 10.88.0.11
//
// Plane and hosts have addresses of IPv6 besides, which end alike: fd00:88::11. Hosts on other machines come the same way, by an address of the machine (ListenAt).
//
// A Network may be beside another: a cable joins the two bridges, so that clusters can
// be moved between the two planes while the hosts stay where they are.
//
// The machine's own network is left alone: no route, no firewall rule, no
// address. Processes cross the border by sockets only: ListenIn opens a socket
// in another namespace, Gather has a server accept there, DialContext connects from one, and
// Forwarder joins a socket with a connection.
//
// The package knows nothing of sandboxes but the process whose namespace a link
// is put into. It may be imported by everything in the plane; it imports the
// standard library, x/sys and netlink.
package network
