package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/test/bench/procstat"
)

// agents is the name under which the requests of all agents stand beside those of
// the providers.
const agents = "slipway-agent"

// meter reads what the plane used so far.
type meter struct {
	pid   int
	plane http.Client
	// beside counts the requests of somebody who is not in the plane.
	who    string
	beside func() (map[string]int, error)
}

func newMeter(s settings, who string, beside func() (map[string]int, error)) *meter {
	socket := filepath.Join(s.inside, "plane.sock")
	return &meter{pid: s.planePID, who: who, beside: beside, plane: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}}
}

// reading is the use of the plane up to a moment.
type reading struct {
	At  time.Time
	CPU time.Duration
	// Writes by who wrote and "METHOD resource".
	Writes map[string]map[string]int
}

// sample matches a counter of requests in the plane's metrics.
var sampleLine = regexp.MustCompile(`^slipway_plane_api_requests_total\{method="(\w+)",provider="([^"]+)",resource="([^"]*)"\} (\S+)`)

func (m *meter) read() (reading, error) {
	r := reading{Writes: map[string]map[string]int{}}
	body, err := m.get("/metrics")
	if err != nil {
		return r, err
	}
	for scanner := bufio.NewScanner(strings.NewReader(body)); scanner.Scan(); {
		match := sampleLine.FindStringSubmatch(scanner.Text())
		if match == nil {
			continue
		}
		n, err := strconv.ParseFloat(match[4], 64)
		if err != nil {
			return r, err
		}
		r.add(match[2], match[1]+" "+match[3], int(n))
	}
	requests, err := m.beside()
	if err != nil {
		return r, err
	}
	for request, n := range requests {
		r.add(m.who, request, n)
	}
	r.At = time.Now()
	r.CPU, err = procstat.CPUTime(m.pid)
	return r, err
}

func (r reading) add(who, request string, n int) {
	method, _, _ := strings.Cut(request, " ")
	if method == http.MethodGet || method == "WATCH" || strings.Contains(request, "subjectaccessreviews") {
		return
	}
	if r.Writes[who] == nil {
		r.Writes[who] = map[string]int{}
	}
	r.Writes[who][request] += n
}

// since is what was used after an earlier reading.
func (r reading) since(earlier reading) reading {
	d := reading{At: r.At, CPU: r.CPU - earlier.CPU, Writes: map[string]map[string]int{}}
	for who, requests := range r.Writes {
		for request, n := range requests {
			if n -= earlier.Writes[who][request]; n > 0 {
				d.add(who, request, n)
			}
		}
	}
	return d
}

// total is the number of writes of one writer, or of all when who is empty.
func (r reading) total(who string) int {
	n := 0
	for writer, requests := range r.Writes {
		if who != "" && who != writer {
			continue
		}
		for _, count := range requests {
			n += count
		}
	}
	return n
}

func (m *meter) get(path string) (string, error) {
	response, err := m.plane.Get("http://plane" + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// profile stores a profile of the plane and tells whether it did, which it does not
// without a directory.
func (m *meter) profile(dir, name, path string) bool {
	if dir == "" {
		return false
	}
	body, err := m.get("/debug/pprof/" + path)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
	}
	return err == nil
}

// profileWhile stores CPU profiles of the plane, of 30 s each, until the returned
// function is called, or one fails; the last one may still be under way then.
func (m *meter) profileWhile(dir, name string) (stop func()) {
	done := make(chan struct{})
	go func() {
		for i := 1; ; i++ {
			select {
			case <-done:
				return
			default:
				if !m.profile(dir, fmt.Sprintf("%s-%d.cpu", name, i), "profile?seconds=30") {
					return
				}
			}
		}
	}()
	return func() { close(done) }
}
