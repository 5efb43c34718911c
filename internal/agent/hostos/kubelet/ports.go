package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// APIServerPort is where an API server listens unless its cluster has another port.
const APIServerPort = 6443

// nodePorts are the other ports of a node and a control plane.
var nodePorts = []int{2379, 2380, 10250, 10257, 10259}

// portTables are the kernel's tables of TCP connections.
var portTables = []string{"/proc/net/tcp", "/proc/net/tcp6"}

// TakenPorts returns the ports of a node and a control plane on which a program listens,
// sorted. apiServer are the ports of API servers, read reads a file of the host. The kernel's
// tables tell: to listen itself would disturb others.
func TakenPorts(read func(path string) ([]byte, error), apiServer ...int) ([]int, error) {
	sockets, err := ListeningSockets(read)
	if err != nil {
		return nil, fmt.Errorf("list listening ports: %w", err)
	}
	var taken []int
	for _, fields := range sockets {
		_, hex, _ := strings.Cut(fields[1], ":")
		number, err := strconv.ParseUint(hex, 16, 16)
		if port := int(number); err == nil && (slices.Contains(nodePorts, port) || slices.Contains(apiServer, port)) {
			taken = append(taken, port)
		}
	}
	slices.Sort(taken)
	return slices.Compact(taken), nil
}

// ListeningSockets returns the lines of the kernel's tables of the TCP sockets on which a program
// listens, by their fields, four at least: the second one is ADDRESS:PORT, the tenth the inode.
// read reads a file of the host. A kernel without IPv6 has one table.
func ListeningSockets(read func(path string) ([]byte, error)) ([][]string, error) {
	const listening = "0A"
	var sockets [][]string
	for _, table := range portTables {
		data, err := read(table)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			if fields := strings.Fields(line); len(fields) >= 4 && fields[3] == listening {
				sockets = append(sockets, fields)
			}
		}
	}
	return sockets, nil
}
