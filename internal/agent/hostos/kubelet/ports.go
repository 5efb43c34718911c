package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
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
	var taken []int
	for _, table := range portTables {
		data, err := read(table)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list listening ports: %w", err)
		}
		for port := range listening(string(data)) {
			if slices.Contains(nodePorts, port) || slices.Contains(apiServer, port) {
				taken = append(taken, port)
			}
		}
	}
	slices.Sort(taken)
	return slices.Compact(taken), nil
}

// listening yields the ports in a table of the kernel on which a program listens.
func listening(table string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for line := range strings.Lines(table) {
			fields := strings.Fields(line)
			if len(fields) < 4 || fields[3] != "0A" { // the state LISTEN
				continue
			}
			_, hex, _ := strings.Cut(fields[1], ":")
			if port, err := strconv.ParseUint(hex, 16, 16); err == nil && !yield(int(port)) {
				return
			}
		}
	}
}
