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

// TestTheSameTwice: a list that the kernel repeats in part without saying so is read until it holds still, and one that never does is
// not known.
func TestTheSameTwice(t *testing.T) {
	lists := []map[string]string{{"a": "1"}, {"a": "1", "a (2)": "1"}, {"a": "1"}, {"a": "1"}}
	calls := 0
	found, err := twice(func() (map[string]string, error) {
		calls++
		return lists[calls-1], nil
	})
	if err != nil || len(found) != 1 || calls != len(lists) {
		t.Fatalf("%v after %d calls: %v", found, calls, err)
	}
	if found, err = twice(func() (map[string]string, error) {
		calls++
		return map[string]string{"call": string(rune('a' + calls))}, nil
	}); !errors.Is(err, netlink.ErrDumpInterrupted) {
		t.Fatalf("a list that never holds still gives %v: %v", found, err)
	}
	broken := errors.New("broken")
	if _, err := twice(func() (map[string]string, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
}
