package network

import (
	"encoding/base64"
	"encoding/binary"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

// TestTablesOfIPTables: a table that came is emptied, and one that was there before returns to what it
// was, without any program of the host.
func TestTablesOfIPTables(t *testing.T) {
	if os.Getuid() != 0 {
		rights.Skip(t, "needs root for a network namespace")
	}
	runtime.LockOSThread() // the thread ends with the test, and its namespace with it
	if _, err := netns.New(); err != nil {
		rights.Skip(t, "no network namespace:", err)
	}
	for _, x := range xtablesFamilies {
		fd, err := x.open()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Close(fd) }()
		info, entries, err := x.read(fd, "filter") // to read a table makes it
		if err != nil {
			rights.Skip(t, "no iptables in this kernel:", err)
		}
		if !x.initial(info, entries) {
			t.Errorf("%s: a new table does not count as empty", x.name)
		}
		look := func(want int) map[string]string {
			t.Helper()
			found, err := lookIPTables()
			if err != nil || len(found) != want {
				t.Fatalf("%s: tables %v, %v, want %d", x.name, found, err, want)
			}
			return found
		}
		look(0)
		// As `iptables -P FORWARD DROP` does.
		kept := x.empty(info)
		rules, _ := base64.StdEncoding.DecodeString(kept.Rules)
		drops := int32(-1)
		binary.NativeEndian.PutUint32(rules[int(kept.HookEntry[2])+x.entry+32:], uint32(drops))
		kept.Rules = base64.StdEncoding.EncodeToString(rules)
		if err := x.replace(fd, "filter", kept); err != nil {
			t.Fatal(err)
		}
		before := look(1)
		if err := x.replace(fd, "filter", x.empty(info)); err != nil {
			t.Fatal(err)
		}
		look(0)
		if err := restoreIPTables(before); err != nil {
			t.Fatal(err)
		}
		if after := look(1); after[x.name+" filter"] != before[x.name+" filter"] {
			t.Errorf("%s: the table is %s, want %s", x.name, after, before)
		}
		if err := removeIPTables([]string{x.name + " filter"}); err != nil {
			t.Fatal(err)
		}
		look(0)
	}
}
