package up

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/join"
	"github.com/slipway-dev/slipway/internal/enroll"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/plane/internal/sandbox"
)

func TestWhereAre(t *testing.T) {
	local := []localhost.Host{
		{Name: "host-1", MachineID: "1"}, {Name: "host-2", MachineID: "2"}, {Name: "host-3", MachineID: "3"},
		{Name: "host-4", MachineID: "4"}, {Name: "host-5", MachineID: "5"},
	}
	of := func(namespace, name, machineID string, phase infrav1.HostPhase) infrav1.Host {
		h := infrav1.Host{}
		h.Namespace, h.Name, h.Status.Phase, h.Status.Inventory.MachineID = namespace, name, phase, machineID
		return h
	}
	got := whereAre(local, []infrav1.Host{
		of(Namespace, "host-1", "1", infrav1.HostPhaseAvailable),
		of(Namespace, "host-2", "", infrav1.HostPhaseEnrolling),
		of("team-a", "renamed", "3", infrav1.HostPhaseAvailable),
		// What is left here of a machine that was enrolled elsewhere since.
		of(Namespace, "host-4", "", infrav1.HostPhaseEnrolling),
		of("team-b", "host-4", "4", infrav1.HostPhaseAvailable),
		// A machine of somebody else that has the same name.
		of("team-a", "host-5", "other", infrav1.HostPhaseAvailable),
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
	path := filepath.Join(s.Hosts.Dir("host-1"), agentState, enrollmentCertificate)
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

// TestOnlyHostsThatNeedATokenGetOne: what an enrolled host is given leads it back here from
// wherever it was handed over to.
func TestOnlyHostsThatNeedATokenGetOne(t *testing.T) {
	for name, tc := range map[string]struct {
		certificate []byte // nil for none
		home        string // empty for none, or here
		want        bool
	}{
		"fresh":                              {want: true},
		"enrolled":                           {certificate: certificateUntil(t, time.Now().Add(time.Hour))},
		"off for longer than its life":       {certificate: certificateUntil(t, time.Now().Add(-time.Hour)), want: true},
		"damaged":                            {certificate: []byte("none"), want: true},
		"handed over":                        {certificate: certificateUntil(t, time.Now().Add(time.Hour)), home: "https://elsewhere:6443"},
		"handed over, and off for longer":    {certificate: certificateUntil(t, time.Now().Add(-time.Hour)), home: "https://elsewhere:6443"},
		"handed over, back, off for longer":  {certificate: certificateUntil(t, time.Now().Add(-time.Hour)), home: "here", want: true},
		"handed over before it was enrolled": {home: "https://elsewhere:6443"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			s.Hosts = &localhost.Manager{StateDir: s.Instance.Dir}
			dir := filepath.Join(s.Hosts.Dir("host-1"), agentState)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if tc.certificate != nil {
				if err := os.WriteFile(filepath.Join(dir, enrollmentCertificate), tc.certificate, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			switch tc.home {
			case "":
			case "here":
				writeHome(t, s.Hosts.Dir("host-1"), s.Instance.Server())
			default:
				writeHome(t, s.Hosts.Dir("host-1"), tc.home)
			}
			files, err := s.agentFiles("host-1", []byte("kubeconfig"))
			if err != nil {
				t.Fatal(err)
			}
			got := slices.ContainsFunc(files, func(f sandbox.File) bool {
				return f.Path == enroll.BootstrapKubeconfigPath && string(f.Content) == "kubeconfig"
			})
			if got != tc.want || files[0].Path != enroll.AgentConfigPath {
				t.Errorf("gets a token: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestReplaceKubeconfig runs the script as a host does: an agent that has the token of this
// command is left alone, any other begins anew.
func TestReplaceKubeconfig(t *testing.T) {
	dir := t.TempDir()
	file, restarts := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "restarts")
	if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte("#!/bin/sh\necho \"$@\" >>"+restarts+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, tc := range []struct{ content, log string }{
		{"token: one\n", "restart slipway-agent\n"},
		{"token: one\n", "restart slipway-agent\n"}, // the same
		{"token: two\n", "restart slipway-agent\nrestart slipway-agent\n"},
	} {
		script := exec.CommandContext(t.Context(), "sh", "-c", replaceKubeconfig, "sh", file)
		script.Stdin = strings.NewReader(tc.content)
		if out, err := script.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		got, err := os.ReadFile(file)
		if err != nil || string(got) != tc.content {
			t.Errorf("%q, %v, want %q", got, err, tc.content)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v: %v", info, err)
		}
		if log, err := os.ReadFile(restarts); err != nil || string(log) != tc.log {
			t.Errorf("after %q: %q, %v", tc.content, log, err)
		}
	}
	if left, _ := filepath.Glob(file + ".*"); len(left) > 0 {
		t.Errorf("left behind: %s", left)
	}
}

// writeHome says on the disk of a host where it was handed over to.
func writeHome(t *testing.T, dir, server string) {
	t.Helper()
	kubeconfig, err := join.BootstrapKubeconfig(server, []byte("CA"), "a.b")
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(host.Home{Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, agentState, host.HomeFile), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// certificateUntil is one that is good until a time.
func certificateUntil(t *testing.T, until time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: until.Add(-24 * time.Hour), NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestIsRequestOf(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string]bool{
		infrav1.AgentUserPrefix + Namespace + ":host-1":           true,
		infrav1.AgentUserPrefix + Namespace + ":host-1:abc":       true,
		infrav1.EnrollmentUserPrefix + Namespace + ":host-1:abc":  true,
		infrav1.EnrollmentUserPrefix + Namespace + ":host-10:abc": false,
		infrav1.AgentUserPrefix + Namespace + ":host-10":          false,
		infrav1.AgentUserPrefix + Namespace + ":host-10:abc":      false,
		infrav1.AgentUserPrefix + "other:host-1":                  false,
		"host-1":                                                  false,
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
