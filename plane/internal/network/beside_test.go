package network

import (
	"errors"
	"net"
	"strings"
	"testing"
)

// newBeside is a network beside that of name, gone when the test ends.
func newBeside(t *testing.T, name string) Network {
	t.Helper()
	n := Network{Name: name + "-b", Beside: name}
	t.Cleanup(func() {
		if err := Remove(n.Name); err != nil {
			t.Error(err)
		}
	})
	if err := n.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

// assertReaches connects from one network to an address in another.
func assertReaches(t *testing.T, from string, to Network) {
	t.Helper()
	var l net.Listener
	err := inNamespace(Path(to.Name), func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(to.Address().String(), "0"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go greeter(l, to.Name)
	conn, err := Dialer(from)(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatalf("%s does not reach %s: %v", from, to.Name, err)
	}
	defer conn.Close()
	answer := make([]byte, len(to.Name))
	if _, err := conn.Read(answer); err != nil || string(answer) != to.Name {
		t.Errorf("%q answers (%v), want %q", answer, err, to.Name)
	}
}

func TestPlanesBesideEachOther(t *testing.T) {
	home := Network{Name: newNetwork(t)}
	beside := newBeside(t, home.Name)
	if err := beside.Ensure(t.Context()); err != nil {
		t.Errorf("second Ensure: %v", err)
	}
	assertReaches(t, home.Name, beside)
	assertReaches(t, beside.Name, home)

	// The other plane was down, and is up again.
	if err := Remove(home.Name); err != nil {
		t.Fatal(err)
	}
	if err := beside.Ensure(t.Context()); !errors.Is(err, ErrNoNetwork) {
		t.Errorf("Ensure beside a plane that is down: %v, want ErrNoNetwork", err)
	}
	if err := errors.Join(home.Ensure(t.Context()), beside.Ensure(t.Context())); err != nil {
		t.Fatal(err)
	}
	assertReaches(t, home.Name, beside)
}

func TestBesideIsForOne(t *testing.T) {
	home := newNetwork(t)
	beside := newBeside(t, home)
	for _, tc := range []struct {
		network Network
		want    string
	}{
		{Network{Name: home + "-c", Beside: home}, "already"},
		{Network{Name: home + "-c", Beside: beside.Name}, "beside another itself"},
		{Network{Name: home + "-c", Beside: home + "-nobody"}, "slipway up --name " + home + "-nobody"},
	} {
		if err := tc.network.Ensure(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("beside %s: %v, want %q", tc.network.Beside, err, tc.want)
		}
		if Exists(tc.network.Name) {
			t.Errorf("beside %s: something was made", tc.network.Beside)
		}
	}
}
