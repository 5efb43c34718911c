package link

import (
	"log/slog"
	"testing"

	"k8s.io/client-go/rest"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
)

// statusHook is a virtual IP whose status is read by a function.
type statusHook func()

func (s statusHook) Status() *infrav1.VirtualIPStatus { s(); return nil }

func (statusHook) Changed() <-chan struct{} { return nil }

// TestReportsAreNeverOlder: a report reads everything with the lock held. A state of the journal
// that was read before could replace that of a report which was made meanwhile.
func TestReportsAreNeverOlder(t *testing.T) {
	for name, report := range map[string]func(*Agent){
		"of the journal": func(a *Agent) { a.changed(nil) },
		"of other news":  (*Agent).report,
	} {
		t.Run(name, func(t *testing.T) {
			j := journal.InMemory()
			var a *Agent
			a, err := New(Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, Journal: j, Log: slog.New(slog.DiscardHandler), VirtualIP: statusHook(func() {
				if a.mu.TryLock() {
					a.mu.Unlock()
					t.Error("the status is read without the lock")
				}
				if err := j.Update(func(s *journal.State) { s.Found = []string{"newer"} }); err != nil {
					t.Error(err)
				}
			})})
			if err != nil {
				t.Fatal(err)
			}
			report(a)
			if found := a.reporter.wanted.Residue; len(found) != 1 {
				t.Errorf("the report has %q, which is older than the journal", found)
			}
		})
	}
}

// TestReportKeepsTheRefusal: news of other things repeat the refusal of the last change of the
// journal, and one that is over does not come back.
func TestReportKeepsTheRefusal(t *testing.T) {
	a, err := New(Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, Journal: journal.InMemory(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, refused := range []*infrav1.ObservedOperation{{ID: "a"}, nil} {
		a.changed(refused)
		a.report()
		if got := a.reporter.wanted.ObservedOperation; got != refused {
			t.Errorf("the report refuses %v, want %v", got, refused)
		}
	}
}
