package reset

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/hostos/kubelet"
)

// listeners are the TCP sockets that listen, by address and port; the value is the socket's inode.
func (c Cleaner) listeners() (entries, error) {
	sockets, err := kubelet.ListeningSockets(c.Root.ReadFile)
	if err != nil {
		return nil, fmt.Errorf("list the sockets that listen: %w", err)
	}
	found := entries{}
	for _, f := range sockets {
		if len(f) < 10 {
			continue
		}
		if address, ok := socketAddress(f[1]); ok {
			found[address] = "inode=" + f[9]
		}
	}
	return found, nil
}

// socketAddress reads ADDRESS:PORT as /proc/net/tcp and tcp6 have it: words in the byte order of the
// machine.
func socketAddress(text string) (string, bool) {
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	number, errPort := strconv.ParseUint(port, 16, 16)
	if err != nil || errPort != nil || len(raw)%4 != 0 {
		return "", false
	}
	for at := 0; at < len(raw); at += 4 {
		binary.BigEndian.PutUint32(raw[at:], binary.NativeEndian.Uint32(raw[at:]))
	}
	ip, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(ip, uint16(number)).String(), ok
}

// ownListener says whether a socket that came is the machine's own: a service of its unit, or a
// program in somebody's session, listens there, or the kernel itself does. Programs of pods are not;
// neither is what a command of the bootstrap left running.
func (c Cleaner) ownListener(ch change, _, _ entries) bool {
	if ch.before != "" {
		return true // its service was restarted
	}
	cgroups, found := c.owners(strings.TrimPrefix(ch.now, "inode="))
	if !found {
		return true
	}
	for _, cgroup := range cgroups {
		if podProcess(cgroup) || !inUnit(cgroup) {
			return false
		}
	}
	return true
}

// inUnit says of /proc/PID/cgroup whether the process is one of a unit but the agent's, or is not put into
// any cgroup. Of several hierarchies, as of version 1, one with a unit tells: in others, a process of a unit may be at the top.
func inUnit(cgroup string) bool {
	top := true
	for line := range strings.Lines(cgroup) {
		_, path, _ := strings.Cut(strings.TrimSpace(line), ":/")
		if strings.Contains(path, ".service") || strings.Contains(path, ".scope") || strings.Contains(path, ".socket") {
			return !strings.Contains(cgroup, "slipway-agent.service")
		}
		top = top && (path == "" || path == localLeaf)
	}
	return top
}

// localLeaf is where the services of a local host of `slipway up` run, on a machine with version 2.
const localLeaf = "init"

// owners returns the cgroups of the processes that have a socket.
func (c Cleaner) owners(inode string) (cgroups []string, found bool) {
	all, _ := filepath.Glob(c.Root.Path("/proc/[0-9]*/fd/*"))
	for _, fd := range all {
		if target, err := os.Readlink(fd); err != nil || target != "socket:["+inode+"]" {
			continue
		}
		cgroup, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(fd)), "cgroup"))
		if err == nil {
			cgroups, found = append(cgroups, string(cgroup)), true
		}
	}
	return cgroups, found
}
