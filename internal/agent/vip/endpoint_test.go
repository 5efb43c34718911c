package vip

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// A host whose API server listens at another port than the endpoint's is never elected, and
// says so: no client would find it by the address.
func TestHostWithAnotherPortIsNotElected(t *testing.T) {
	w := newWorld(t, 3)
	for _, m := range w.hosts[1:] {
		m.port = 6443
	}
	m := w.hosts[0]
	w.until(takeoverLimit, "held", func() bool { return w.holder() != nil })
	w.run(time.Minute)
	if s := m.keeper.Status(); !m.holds() || s.APIServer != Answering || s.Port != 8443 || s.Problem != "" {
		t.Errorf("%s holds the address, and %s reports %+v", w.holders(), m.name, s)
	}
	for _, other := range w.hosts[1:] {
		if s := other.keeper.Status(); s.APIServer != NotAnswering || !strings.Contains(s.Problem, "6443") || !strings.Contains(s.Problem, "bindPort") || !strings.Contains(s.Problem, "8443") {
			t.Errorf("%s reports %+v", other.name, s)
		}
	}
	m.down = true
	w.run(time.Minute)
	if w.holder() != nil {
		t.Errorf("%s holds the address, and its API server listens at another port", w.holders())
	}
	w.hosts[1].port = 8443
	w.until(takeoverLimit, "held", w.hosts[1].holds)
	w.run(2 * time.Second)
	if s := w.hosts[1].keeper.Status(); s.APIServer != Answering || s.Problem != "" {
		t.Errorf("%s reports %+v", w.hosts[1].name, s)
	}
}

// The host that makes the control plane holds the address while its bootstrap runs. With an
// API server at another port nobody answers there, and then nobody holds it.
func TestInitHostWithAnotherPort(t *testing.T) {
	w := newWorld(t, 1)
	m := w.hosts[0]
	m.port, m.blank, m.candidate.Initializes = 6443, true, true
	if err := m.keeper.HoldForInit(t.Context(), virtual); err != nil || !m.holds() {
		t.Fatalf("not held: %v", err)
	}
	w.run(10 * time.Second)
	if s := m.keeper.Status(); !s.Held || s.APIServer != "" || s.Problem != "" {
		t.Errorf("before the API server starts it reports %+v", s)
	}
	w.run(patience)
	if s := m.keeper.Status(); !s.Held || s.APIServer != NotAnswering || s.Problem != "" {
		t.Errorf("while kubeadm init takes long it reports %+v", s)
	}
	m.blank = false
	w.run(patience)
	if s := m.keeper.Status(); !s.Held || s.APIServer != NotAnswering {
		t.Errorf("with an API server at another port it reports %+v", s)
	}
	m.candidate.Initializes = false
	w.run(10 * time.Second)
	if s := m.keeper.Status(); m.holds() || s.APIServer != NotAnswering || !strings.Contains(s.Problem, "8443") {
		t.Errorf("after the bootstrap it reports %+v", s)
	}
}

// An API server that takes long to start while kubeadm runs is no trouble yet.
func TestAPIServerThatStartsSlowly(t *testing.T) {
	w := newWorld(t, 1)
	m := w.hosts[0]
	m.blank, m.candidate.Initializes = true, true
	if err := m.keeper.HoldForInit(t.Context(), virtual); err != nil {
		t.Fatal(err)
	}
	m.blank, m.deaf = false, true
	w.run(2 * patience)
	if s := m.keeper.Status(); !s.Held || s.APIServer != NotAnswering || s.Problem != "" {
		t.Errorf("while it bootstraps it reports %+v", s)
	}
	m.deaf = false
	w.run(2 * time.Second)
	if s := m.keeper.Status(); !s.Held || s.APIServer != Answering || s.Problem != "" {
		t.Errorf("once it answers it reports %+v", s)
	}
}

// The host that is elected connects to the endpoint itself: an API server may not listen at
// the address, and then it is not said to answer.
func TestAPIServerThatDoesNotListenAtTheAddress(t *testing.T) {
	w := newWorld(t, 1)
	m := w.hosts[0]
	m.deaf = true
	w.until(takeoverLimit, "held", m.holds)
	w.run(patience / 2)
	if s := m.keeper.Status(); s.APIServer != "" || s.Problem != "" {
		t.Errorf("before it is known it reports %+v", s)
	}
	w.run(patience)
	if s := m.keeper.Status(); !s.Held || s.APIServer != NotAnswering || !strings.Contains(s.Problem, "10.88.0.200:8443") {
		t.Errorf("it reports %+v", s)
	}
	m.deaf = false
	w.run(2 * time.Second)
	if s := m.keeper.Status(); !s.Held || s.APIServer != Answering || s.Problem != "" {
		t.Errorf("once it answers it reports %+v", s)
	}
	// One request that fails says nothing.
	m.deaf = true
	w.run(answerInterval + 2*time.Second)
	m.deaf = false
	if s := m.keeper.Status(); s.APIServer != Answering {
		t.Errorf("after failures of some seconds it reports %+v", s)
	}
	m.keeper.HandOver(t.Context())
	if s := m.keeper.Status(); s.Held || s.APIServer != "" {
		t.Errorf("without the address it reports %+v", s)
	}
}

// Hosts that an earlier version made nodes do not know the port: they elect as before, and do
// not say that the API server answers.
func TestUnknownPort(t *testing.T) {
	w := newWorld(t, 2)
	for _, m := range w.hosts {
		m.candidate.Port, m.port = 0, 6443
	}
	w.until(takeoverLimit, "held", func() bool { return w.holder() != nil })
	w.run(time.Minute)
	for _, m := range w.hosts {
		if s := m.keeper.Status(); s.Port != 0 || s.APIServer != "" || s.Problem != "" {
			t.Errorf("%s reports %+v", m.name, s)
		}
	}
}

func TestPortErrorKeepsItsCause(t *testing.T) {
	if err := error(&PortError{Port: 443, Listens: "6443", Err: errDown}); !errors.Is(err, errDown) || !strings.Contains(err.Error(), "bindPort of initConfiguration") {
		t.Error(err)
	}
}
