package console

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/slipway-dev/slipway/internal/console/view"
	"github.com/slipway-dev/slipway/internal/status"
)

// fleetPage renders the fleet of n hosts.
func fleetPage(t testing.TB, s *server, hosts []status.Host) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := s.templates.ExecuteTemplate(&out, "fleet", body{Title: "Fleet", Content: view.FleetOf(hosts, view.FleetFilter{})}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func largeFleet(t testing.TB) (*server, []status.Host) {
	t.Helper()
	s, err := newServer(Config{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	hosts := make([]status.Host, 5000)
	for i := range hosts {
		hosts[i] = status.Host{
			Namespace: "production-of-the-west", Name: fmt.Sprintf("rack%03d-unit%02d", i/40, i%40), FailureDomain: fmt.Sprintf("rack-%d", i/40), State: status.State{Role: status.OK, Word: "Running"},
			ClaimedBy: fmt.Sprintf("cluster-%d/cluster-%d-workers-x7k2p-%d", i%50, i%50, i),
		}
	}
	return s, hosts
}

// What a browser lays out does not grow with the fleet.
func TestAPageOfALargeFleetIsSmall(t *testing.T) {
	s, hosts := largeFleet(t)
	if size := len(fleetPage(t, s, hosts)); size > 192<<10 {
		t.Errorf("5,000 hosts make a page of %d KiB", size>>10)
	}
}

func BenchmarkFleetOf5000(b *testing.B) {
	s, hosts := largeFleet(b)
	for b.Loop() {
		b.ReportMetric(float64(len(fleetPage(b, s, hosts))), "bytes/page")
	}
}
