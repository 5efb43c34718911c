package enroll

import (
	"crypto/ecdsa"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// in is the enroller as the agent makes it when it starts.
func in(t *testing.T, e *Enroller, configured string) *Enroller {
	t.Helper()
	namespace, err := Namespace(e.StateDir, configured, e.BootstrapKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	started := *e
	started.Namespace = namespace
	return &started
}

// The token is gone by then: the certificates of the one namespace get those of the other.
func TestAssignAsksOnce(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	session := enroll(t, e)
	if err := os.Remove(e.BootstrapKubeconfig); err != nil {
		t.Fatal(err)
	}
	var assignment *Assignment
	for range 3 {
		var err error
		if assignment, err = session.Assign(t.Context(), "team-a"); err != nil {
			t.Fatal(err)
		}
		assignment.Close()
	}
	if got := s.whoFiled(); got != "token enrollment enrollment enrollment" {
		t.Errorf("three tries filed %s", got)
	}
	if before := in(t, e, "ns"); before.Namespace != "ns" {
		t.Errorf("it is in %s before it is committed", before.Namespace)
	}
	if err := assignment.Commit("ns"); err != nil {
		t.Fatal(err)
	}
	there := enroll(t, in(t, e, "ns"))
	id := identity(t, e)
	if got := there.current().Leaf.Subject.CommonName; got != infrav1.AgentUser("team-a", "h", id) || serial(there.current()) != serial(assignment.working) {
		t.Errorf("it works as %s", got)
	}
	if got := there.asking().Leaf.Subject.CommonName; got != infrav1.EnrollmentUser("team-a", "h", id) || there.Config().Host != s.URL {
		t.Errorf("it asks as %s, at %s", got, there.Config().Host)
	}
	if len(s.filed) != 4 {
		t.Errorf("a restart files %d requests more", len(s.filed)-4)
	}
	kubeconfig, err := os.ReadFile(filepath.Join(e.StateDir, kubeconfigFile))
	if err != nil || !strings.Contains(string(kubeconfig), "namespace: team-a") {
		t.Errorf("the kubeconfig on the host is of another namespace: %v\n%s", err, kubeconfig)
	}
}

// TestPowerCutAtAssignment: the first write has all that the other namespace takes, as nobody
// has a token for it.
func TestPowerCutAtAssignment(t *testing.T) {
	for i, want := range []int{1, 1, 0} {
		t.Run(fmt.Sprintf("after %d", i+1), func(t *testing.T) {
			s := newSigner(t)
			e := enroller(t, s)
			session := enroll(t, e)
			if err := os.Remove(e.BootstrapKubeconfig); err != nil {
				t.Fatal(err)
			}
			assignment, err := session.Assign(t.Context(), "team-a")
			if err != nil {
				t.Fatal(err)
			}
			assignment.Close()
			enrollment, working := session.asking(), session.current()
			if err = assignment.Commit("ns"); i < 1 && err == nil {
				err = e.saveEnrollment(enrollment)
			}
			if i < 2 && err == nil {
				err = e.saveWorking(working, working.PrivateKey.(*ecdsa.PrivateKey))
			}
			if err != nil {
				t.Fatal(err)
			}
			filed := len(s.filed)
			there := enroll(t, in(t, e, "ns"))
			if got := there.current().Leaf.Subject.CommonName; got != infrav1.AgentUser("team-a", "h", identity(t, e)) {
				t.Errorf("it works as %s", got)
			}
			if got := len(s.filed) - filed; got != want {
				t.Errorf("it filed %d requests, want %d", got, want)
			}
		})
	}
}

// An operator who configures another namespace later, or a host that cannot write down where
// it is, is in no other.
func TestAssignmentThatDoesNotHold(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	session := enroll(t, e)
	assignment, err := session.Assign(t.Context(), "team-a")
	if err != nil {
		t.Fatal(err)
	}
	defer assignment.Close()
	file := filepath.Join(e.StateDir, assignedFile)
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := assignment.Commit("ns"); err == nil {
		t.Fatal("committed")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if here := enroll(t, in(t, e, "ns")); serial(here.current()) != serial(session.current()) || serial(here.asking()) != serial(session.asking()) {
		t.Error("it has certificates of another namespace")
	}
	if err := assignment.Commit("ns"); err != nil {
		t.Fatal(err)
	}
	for configured, want := range map[string]string{"ns": "team-a", "team-b": "team-b"} {
		if got := in(t, e, configured).Namespace; got != want {
			t.Errorf("configured for %s it is in %s, want %s", configured, got, want)
		}
	}
	for _, damaged := range []string{"", "{", `{"configured":"ns"}`} {
		if err := os.WriteFile(file, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Namespace(e.StateDir, "ns", e.BootstrapKubeconfig); err == nil || !strings.Contains(err.Error(), "enroll the host again") {
			t.Errorf("%q: %v", damaged, err)
		}
	}
}

// A host that was assigned comes back by a new bootstrap kubeconfig, as after its Host was
// deleted; the one that it has had before, as a provisioning tool puts back, changes nothing.
func TestNewTokenEndsAnAssignment(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	session := enroll(t, e)
	kubeconfig, err := os.ReadFile(e.BootstrapKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	session.Served()
	assignment, err := session.Assign(t.Context(), "team-a")
	if err != nil {
		t.Fatal(err)
	}
	assignment.Close()
	if err := assignment.Commit("ns"); err != nil {
		t.Fatal(err)
	}
	put := func(content []byte, want string) *Session {
		t.Helper()
		if err := os.WriteFile(e.BootstrapKubeconfig, content, 0o600); err != nil {
			t.Fatal(err)
		}
		started := in(t, e, "ns")
		if started.Namespace != want {
			t.Fatalf("it is in %s, want %s", started.Namespace, want)
		}
		back := enroll(t, started)
		back.Served()
		if exists(t, e.BootstrapKubeconfig) {
			t.Error("the bootstrap kubeconfig stays")
		}
		return back
	}
	put(kubeconfig, "team-a")
	if back := put(append(kubeconfig, '\n'), "ns"); back.asking().Leaf.Subject.CommonName != infrav1.EnrollmentUser("ns", "h", identity(t, e)) {
		t.Errorf("it asks as %s", back.asking().Leaf.Subject.CommonName)
	}
	if got := in(t, e, "ns").Namespace; got != "ns" {
		t.Errorf("the next start is in %s", got)
	}
}
