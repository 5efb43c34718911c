package kubelet

import (
	"slices"
	"strconv"
	"strings"
)

// ports of a node and a control plane.
var ports = []int{2379, 2380, 6443, 10250, 10257, 10259}

// PortTables are the kernel's tables of TCP connections.
var PortTables = []string{"/proc/net/tcp", "/proc/net/tcp6"}

// TakenPorts returns the ports of a node and a control plane on which a program listens, by a
// table of the kernel. To listen itself would disturb others.
func TakenPorts(table string) []int {
	var taken []int
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[3] != "0A" { // the state LISTEN
			continue
		}
		_, hex, _ := strings.Cut(fields[1], ":")
		port, err := strconv.ParseUint(hex, 16, 16)
		if err == nil && slices.Contains(ports, int(port)) && !slices.Contains(taken, int(port)) {
			taken = append(taken, int(port))
		}
	}
	return taken
}
