package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

func measured(provider string, size int, running time.Duration, writes int) stage {
	return stage{
		Provider: provider, Size: size, Fleet: size + 1, Took: map[string]time.Duration{machineRunning: running},
		Used: reading{Writes: map[string]map[string]int{provider: {"PATCH machines": writes * size}}},
	}
}

func TestTargets(t *testing.T) {
	upstreams := measured(peerProvider, 1000, 200*time.Second, 10)
	for name, c := range map[string]struct {
		peer   *stage
		first  stage
		missed string
	}{
		"half of the peer's time": {&upstreams, measured(provider, 1000, 100*time.Second, 7), ""},
		"more than half of it":    {&upstreams, measured(provider, 1000, 101*time.Second, 7), "upstream's provider"},
		"as many machines only":   {&upstreams, measured(provider, 200, 101*time.Second, 7), ""},
		"no peer, soon enough":    {nil, measured(provider, 1000, 177*time.Second, 7), ""},
		"no peer, too late":       {nil, measured(provider, 1000, 178*time.Second, 7), "every Machine Running"},
	} {
		t.Run(name, func(t *testing.T) {
			err := printTable(io.Discard, c.peer, []stage{c.first})
			if c.missed == "" && err != nil {
				t.Error(err)
			}
			if c.missed != "" && (err == nil || !strings.Contains(err.Error(), c.missed)) {
				t.Errorf("got %v, want %q to be missed", err, c.missed)
			}
		})
	}
}

func TestTableTellsTheSidesApart(t *testing.T) {
	upstreams := measured(peerProvider, 1000, 200*time.Second, 10)
	out := &strings.Builder{}
	if err := printTable(out, &upstreams, []stage{measured(provider, 1000, 50*time.Second, 7)}); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"| every Machine Running |  | 200 s | 50 s |",
		"| – of the time of upstream's provider | ≤ 0.50 | – | 0.25 |",
		"| – of the provider | ≤ 8.0 | 10.0 | 7.0 |",
	} {
		if !strings.Contains(out.String(), row) {
			t.Errorf("no row %q in\n%s", row, out)
		}
	}
}

func TestCountRequests(t *testing.T) {
	counts, err := countRequests(strings.NewReader(`# HELP rest_client_requests_total Number of HTTP requests, partitioned by status code, method, and host.
rest_client_requests_total{code="200",host="127.0.0.1:6443",method="PATCH"} 9000
rest_client_requests_total{code="409",host="127.0.0.1:6443",method="PATCH"} 1
rest_client_requests_total{code="201",host="127.0.0.1:20000",method="POST"} 5
`))
	if err != nil || len(counts) != 1 || counts["PATCH"] != 9001 {
		t.Errorf("got %v, %v", counts, err)
	}
	if _, err := countRequests(strings.NewReader("")); err == nil {
		t.Error("metrics without a request passed for a count")
	}
}
