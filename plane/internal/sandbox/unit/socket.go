package unit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// Socket is where the supervisor of a host listens.
const Socket = "/run/systemd-shim.sock"

// jobTimeout bounds how long a systemctl waits for its job, as systemd does.
const jobTimeout = 90 * time.Second

// Serve answers Call on the listener until that is closed.
func (s *Supervisor) Serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go s.answer(c)
	}
}

func (s *Supervisor) answer(c net.Conn) {
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(jobTimeout))
	var args []string
	if err := json.NewDecoder(c).Decode(&args); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), jobTimeout)
	defer cancel()
	_ = json.NewEncoder(c).Encode( //nolint:errchkjson // a client that went away needs no answer
		s.Systemctl(ctx, args))
}

// Listen opens the socket, readable by root only.
func Listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(path, 0o600)
}

// Call asks the supervisor behind the socket to do `systemctl args...`.
func Call(path string, args []string) (Reply, error) {
	c, err := net.Dial("unix", path)
	if err != nil {
		return Reply{}, fmt.Errorf("the supervisor of this host does not answer: %w", err)
	}
	defer c.Close()
	if err := json.NewEncoder(c).Encode(args); err != nil {
		return Reply{}, err
	}
	var r Reply
	if err := json.NewDecoder(c).Decode(&r); err != nil {
		return Reply{}, fmt.Errorf("the supervisor of this host went away: %w", err)
	}
	return r, nil
}
