package network

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"strings"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// What the kernel has of the tables of iptables before nftables, which it keeps apart from those.
// They are read and replaced by the calls that iptables itself makes, so that no program of the host is
// needed (linux/netfilter_ipv4/ip_tables.h and netfilter_ipv6/ip6_tables.h).
const (
	tablesInfo    = 64 // IPT_SO_GET_INFO, IP6T_SO_GET_INFO
	tablesEntries = 65
	tablesReplace = 64

	hooks = 5 // NF_INET_NUMHOOKS
	// maxTable is how large a table may be, in bytes, to be restored: a larger one is compared only.
	maxTable = 128 << 10

	verdictAccept = -1 - 1 // NF_ACCEPT, as a standard target has it
)

// xtables is one family of tables.
type xtables struct {
	name, names         string
	domain, level       int
	counters, targetOff int // where in an entry its counters and the offset of its target are
	entry               int // size of an entry without matches and target
}

var xtablesFamilies = []xtables{
	{"ip", "/proc/thread-self/net/ip_tables_names", unix.AF_INET, unix.IPPROTO_IP, 96, 88, 112},
	{"ip6", "/proc/thread-self/net/ip6_tables_names", unix.AF_INET6, unix.IPPROTO_IPV6, 152, 140, 168},
}

// tableInfo is struct ipt_getinfo and struct ip6t_getinfo.
type tableInfo struct {
	Name       [32]byte
	ValidHooks uint32
	HookEntry  [hooks]uint32
	Underflow  [hooks]uint32
	NumEntries uint32
	Size       uint32
}

// keptTable is a table as it is recorded.
type keptTable struct {
	ValidHooks uint32        `json:"hooks"`
	HookEntry  [hooks]uint32 `json:"entry"`
	Underflow  [hooks]uint32 `json:"underflow"`
	NumEntries uint32        `json:"entries"`
	Rules      string        `json:"rules"`
}

// open returns a socket on which tables are read and replaced.
func (x xtables) open() (int, error) {
	return unix.Socket(x.domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
}

// tables are the names of those that this namespace has. To ask for another would make it.
func (x xtables) tables() ([]string, error) {
	data, err := os.ReadFile(x.names)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(data)), err
}

func (x xtables) read(fd int, table string) (info tableInfo, entries []byte, err error) {
	copy(info.Name[:], table)
	size := uint32(unsafe.Sizeof(info))
	if err := getsockopt(fd, x.level, tablesInfo, unsafe.Pointer(&info), &size); err != nil { //nolint:gosec // the call of iptables itself
		return info, nil, fmt.Errorf("read table %s: %w", table, err)
	}
	const header = 40 // name, size, and padding
	buffer := make([]byte, header+int(info.Size))
	copy(buffer, table)
	binary.NativeEndian.PutUint32(buffer[32:], info.Size)
	size = uint32(len(buffer))
	if err := getsockopt(fd, x.level, tablesEntries, unsafe.Pointer(&buffer[0]), &size); err != nil { //nolint:gosec // as above
		return info, nil, fmt.Errorf("read table %s: %w", table, err)
	}
	entries = buffer[header:]
	x.each(entries, func(entry []byte) {
		clear(entry[x.counters : x.counters+16])
		clear(entry[x.targetOff+4 : x.targetOff+8]) // where the kernel came from while it checked for loops
	})
	return info, entries, nil
}

// each calls f for every entry.
func (x xtables) each(entries []byte, f func(entry []byte)) {
	for len(entries) >= x.entry {
		next := int(binary.NativeEndian.Uint16(entries[x.targetOff+2:]))
		if next < x.entry || next > len(entries) {
			return
		}
		f(entries[:next])
		entries = entries[next:]
	}
}

// initial says whether a table has nothing but its chains, and accepts everything: a table that was
// asked for and never used, which no program can take away.
func (x xtables) initial(info tableInfo, entries []byte) bool {
	if int(info.NumEntries) != bits.OnesCount32(info.ValidHooks)+1 {
		return false
	}
	accepts, last := true, uint32(0)
	x.each(entries, func(entry []byte) {
		if last++; last == info.NumEntries {
			return
		}
		target := int(binary.NativeEndian.Uint16(entry[x.targetOff:]))
		accepts = accepts && len(entry) >= target+36 && int32(binary.NativeEndian.Uint32(entry[target+32:])) == verdictAccept
	})
	return accepts
}

// empty is a table with nothing in it.
func (x xtables) empty(info tableInfo) keptTable {
	const standard, failure = 40, 64
	kept := keptTable{ValidHooks: info.ValidHooks}
	var entries []byte
	add := func(target int) []byte {
		entry := make([]byte, x.entry+target)
		binary.NativeEndian.PutUint16(entry[x.targetOff:], uint16(x.entry))
		binary.NativeEndian.PutUint16(entry[x.targetOff+2:], uint16(len(entry)))
		binary.NativeEndian.PutUint16(entry[x.entry:], uint16(target))
		entries = append(entries, entry...)
		kept.NumEntries++
		return entries[len(entries)-target:]
	}
	for hook := range hooks {
		if info.ValidHooks&(1<<hook) == 0 {
			continue
		}
		kept.HookEntry[hook], kept.Underflow[hook] = uint32(len(entries)), uint32(len(entries))
		verdict := int32(verdictAccept)
		binary.NativeEndian.PutUint32(add(standard)[32:], uint32(verdict))
	}
	end := add(failure)
	copy(end[2:], "ERROR")
	copy(end[32:], "ERROR")
	kept.Rules = base64.StdEncoding.EncodeToString(entries)
	return kept
}

// replace gives a table the content that was kept of it.
func (x xtables) replace(fd int, table string, kept keptTable) error {
	entries, err := base64.StdEncoding.DecodeString(kept.Rules)
	if err != nil {
		return err
	}
	info, _, err := x.read(fd, table)
	if err != nil {
		return err
	}
	const header = 96 // struct ipt_replace
	buffer := make([]byte, header+len(entries))
	copy(buffer, table)
	for i, n := range append([]uint32{kept.ValidHooks, kept.NumEntries, uint32(len(entries))}, append(kept.HookEntry[:], kept.Underflow[:]...)...) {
		binary.NativeEndian.PutUint32(buffer[32+4*i:], n)
	}
	// The kernel returns the counters of the rules that go.
	counters := make([]byte, 16*int(info.NumEntries))
	binary.NativeEndian.PutUint32(buffer[84:], info.NumEntries)
	binary.NativeEndian.PutUint64(buffer[88:], uint64(uintptr(unsafe.Pointer(&counters[0])))) //nolint:gosec // as above
	copy(buffer[header:], entries)
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(x.level), tablesReplace, uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)), uintptr(unsafe.Pointer(&counters[0]))) //nolint:gosec // as above
	if errno != 0 {
		return fmt.Errorf("replace table %s: %w", table, errno)
	}
	return nil
}

func getsockopt(fd, level, option int, value unsafe.Pointer, size *uint32) error {
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option), uintptr(value), uintptr(unsafe.Pointer(size)), 0) //nolint:gosec // as above
	if errno != 0 {
		return errno
	}
	return nil
}

func lookIPTables() (map[string]string, error) {
	found := map[string]string{}
	err := eachTable(func(x xtables, fd int, table string) error {
		info, entries, err := x.read(fd, table)
		if err != nil || x.initial(info, entries) {
			return err
		}
		sum := sha256.Sum256(entries)
		is := "sha256:" + hex.EncodeToString(sum[:])
		if len(entries) <= maxTable {
			kept, err := json.Marshal(keptTable{info.ValidHooks, info.HookEntry, info.Underflow, info.NumEntries, base64.StdEncoding.EncodeToString(entries)})
			if err != nil {
				return err
			}
			is = string(kept)
		}
		if hasChain(string(entries)) {
			is += nodeMark
		}
		found[x.name+" "+table] = is
		return nil
	})
	return found, err
}

func hasChain(entries string) bool {
	for _, prefix := range chainPrefixes {
		if strings.Contains(entries, prefix) {
			return true
		}
	}
	return false
}

func eachTable(f func(x xtables, fd int, table string) error) error {
	var errs []error
	for _, x := range xtablesFamilies {
		tables, err := x.tables()
		if err != nil || len(tables) == 0 {
			errs = append(errs, err)
			continue
		}
		fd, err := x.open()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, table := range tables {
			_, err := ReadAll(func() (bool, error) {
				err := f(x, fd, table)
				if errors.Is(err, unix.EAGAIN) { // it changed after its size was read
					err = fmt.Errorf("%w: %w", netlink.ErrDumpInterrupted, err)
				}
				return true, err
			})
			errs = append(errs, err)
		}
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}

// removeIPTables empties tables that were not used before.
func removeIPTables(names []string) error {
	unwanted := set(names)
	return eachTable(func(x xtables, fd int, table string) error {
		if !unwanted[x.name+" "+table] {
			return nil
		}
		info, _, err := x.read(fd, table)
		if err != nil {
			return err
		}
		return x.replace(fd, table, x.empty(info))
	})
}

func restoreIPTables(before map[string]string) error {
	return eachTable(func(x xtables, fd int, table string) error {
		was, wanted := before[x.name+" "+table]
		if !wanted {
			return nil
		}
		kept := keptTable{}
		if err := json.Unmarshal([]byte(strings.TrimSuffix(was, nodeMark)), &kept); err != nil {
			return fmt.Errorf("restore table %s %s: it is too large", x.name, table)
		}
		return x.replace(fd, table, kept)
	})
}
