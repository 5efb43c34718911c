package up

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
)

func TestWhereAre(t *testing.T) {
	local := []localhost.Host{
		{Name: "host-1", MachineID: "1"}, {Name: "host-2", MachineID: "2"}, {Name: "host-3", MachineID: "3"},
		{Name: "host-4", MachineID: "4"}, {Name: "host-5", MachineID: "5"},
	}
	host := func(namespace, name, machineID string, phase infrav1.HostPhase) infrav1.Host {
		h := infrav1.Host{}
		h.Namespace, h.Name, h.Status.Phase, h.Status.Inventory.MachineID = namespace, name, phase, machineID
		return h
	}
	got := whereAre(local, []infrav1.Host{
		host(Namespace, "host-1", "1", infrav1.HostPhaseAvailable),
		host(Namespace, "host-2", "", infrav1.HostPhaseEnrolling),
		host("team-a", "renamed", "3", infrav1.HostPhaseAvailable),
		// What is left here of a machine that was enrolled elsewhere since.
		host(Namespace, "host-4", "", infrav1.HostPhaseEnrolling),
		host("team-b", "host-4", "4", infrav1.HostPhaseAvailable),
		// A machine of somebody else that has the same name.
		host("team-a", "host-5", "other", infrav1.HostPhaseAvailable),
	})
	want := whereabouts{
		known: 1, pending: []string{"host-2"}, unknown: []string{"host-5"},
		elsewhere: []enrolledElsewhere{{"host-3", "team-a"}, {"host-4", "team-b"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Only an agent that was enrolled before this command is told to enroll again: one that
// is about to must be left to it.
func TestEnrolledBefore(t *testing.T) {
	s := newSession(t)
	s.Hosts = &localhost.Manager{StateDir: s.Instance.Dir}
	if again, err := s.enrolledBefore("host-1", time.Now()); again || err != nil {
		t.Errorf("an agent that never was: %t, %v", again, err)
	}
	path := filepath.Join(s.Hosts.Dir("host-1"), agentState, agentCertificate)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Duration]bool{-time.Minute: false, time.Minute: true} {
		if again, err := s.enrolledBefore("host-1", time.Now().Add(at)); again != want || err != nil {
			t.Errorf("%s: %t, %v", at, again, err)
		}
	}
}

func TestIsRequestOf(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string]bool{
		infrav1.AgentUserPrefix + Namespace + ":host-1":      true,
		infrav1.AgentUserPrefix + Namespace + ":host-1:abc":  true,
		infrav1.AgentUserPrefix + Namespace + ":host-10":     false,
		infrav1.AgentUserPrefix + Namespace + ":host-10:abc": false,
		infrav1.AgentUserPrefix + "other:host-1":             false,
		"host-1":                                             false,
	} {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: user}}, key)
		if err != nil {
			t.Fatal(err)
		}
		if got := isRequestOf(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), "host-1"); got != want {
			t.Errorf("%s: %t", user, got)
		}
	}
	if isRequestOf([]byte("none"), "host-1") {
		t.Error("what is no request is one")
	}
}
