package chaos

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// memory is what the plane's process has.
type memory struct {
	// since is when the process was first seen.
	since time.Time
	pid   int
	// heap is what is in use after a garbage collection, in bytes; objects are in it.
	heap, objects uint64
	goroutines    uint64
}

func (m memory) String() string {
	return fmt.Sprintf("pid %d: %.1f MiB of heap in use, %d objects, %d goroutines", m.pid, float64(m.heap)/(1<<20), m.objects, m.goroutines)
}

// weigh tells what the process of the plane has, once it is at rest and has collected its
// garbage. A process that was just started says nothing about one that lives.
func (r *run) weigh(ctx context.Context) {
	m, err := r.plane.memory(ctx)
	if err != nil {
		r.notef("cannot weigh the plane: %v", err)
		return
	}
	if n := len(r.weights); n > 0 && r.weights[n-1].pid == m.pid {
		m.since = r.weights[n-1].since
	}
	r.weights = append(r.weights, m)
	r.notef("round %d: %s after %s", r.rounds, m, time.Since(m.since).Round(time.Second))
}

// memory asks the plane on its socket.
func (p *plane) memory(ctx context.Context) (memory, error) {
	m := memory{since: time.Now(), pid: p.pid()}
	heap, err := p.profile(ctx, "heap?gc=1&debug=1")
	if err != nil {
		return m, err
	}
	stacks, err := p.profile(ctx, "goroutine?debug=1")
	if err != nil {
		return m, err
	}
	return m, m.read(heap, stacks)
}

// read takes the numbers from the two profiles, as package runtime/pprof writes them.
func (m *memory) read(heap, stacks string) error {
	for prefix, into := range map[string]*uint64{"# HeapAlloc = ": &m.heap, "# HeapObjects = ": &m.objects, "goroutine profile: total ": &m.goroutines} {
		found := false
		for lines := bufio.NewScanner(strings.NewReader(heap + "\n" + stacks)); lines.Scan() && !found; {
			text, ok := strings.CutPrefix(lines.Text(), prefix)
			if !ok {
				continue
			}
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return fmt.Errorf("read %q: %w", lines.Text(), err)
			}
			*into, found = n, true
		}
		if !found {
			return fmt.Errorf("a profile has no line %q", prefix)
		}
	}
	return nil
}

func (p *plane) profile(ctx context.Context, query string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(p.StateDir, "plane.sock"))
	}
	transport := &http.Transport{DialContext: dial}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://plane/debug/pprof/"+query, nil)
	if err != nil {
		return "", err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", fmt.Errorf("ask the plane for %s: %w", query, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// What the runtime writes into its profiles is found.
func TestMemoryIsRead(t *testing.T) {
	t.Parallel()
	heap := "heap profile: 3: 4 [5: 6] @ heap/1048576\n\n# runtime.MemStats\n# Alloc = 7\n# HeapAlloc = 3145728\n# HeapObjects = 42\n"
	m := memory{pid: 9}
	if err := m.read(heap, "goroutine profile: total 11\n1 @ 0x1\n"); err != nil || m.String() != "pid 9: 3.0 MiB of heap in use, 42 objects, 11 goroutines" {
		t.Errorf("read %s, %v", m, err)
	}
	if err := m.read(heap, ""); err == nil {
		t.Error("a profile without the number of goroutines is taken")
	}
}
