package network

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestReadAgainWhenInterrupted(t *testing.T) {
	calls := 0
	all, err := ReadAll(func() ([]int, error) {
		if calls++; calls < 3 {
			return []int{1}, netlink.ErrDumpInterrupted
		}
		return []int{1, 2}, nil
	})
	if err != nil || len(all) != 2 || calls != 3 {
		t.Fatalf("%v after %d calls: %v", all, calls, err)
	}
	if _, err := ReadAll(func() ([]int, error) { return nil, netlink.ErrDumpInterrupted }); !errors.Is(err, netlink.ErrDumpInterrupted) {
		t.Fatalf("a list that never holds still gives %v", err)
	}
	broken := errors.New("broken")
	if _, err := ReadAll(func() ([]int, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
}
