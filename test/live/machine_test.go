package live

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// What a test leaves behind is told from what another one has, by the name of its plane.
func TestForeign(t *testing.T) {
	t.Parallel()
	p := Plane{Name: "planetest-20001"}
	got := p.own([]string{
		"/sys/fs/cgroup/planetest-20001", "/sys/fs/cgroup/planetest-20002", "/sys/fs/cgroup/cpu/planetest-20002-preflight",
		"/run/netns/planetest-20001", "/run/netns/planetest-200011", "/run/netns/planetest-20001x1", "/run/netns/slipway", "/proc",
		filepath.Join(os.TempDir(), "TestReadOnlyUsr1/001/usr"), filepath.Join(os.TempDir(), "TestUp1/001/planetest-20001"),
	})
	if want := []string{"/sys/fs/cgroup/planetest-20001", "/run/netns/planetest-20001", "/run/netns/slipway", "/proc", filepath.Join(os.TempDir(), "TestUp1/001/planetest-20001")}; !slices.Equal(got, want) {
		t.Errorf("own are %v, want %v", got, want)
	}
}

func TestProcessesOfOtherTestsAreLeftOut(t *testing.T) {
	t.Parallel()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	path := filepath.Join(bin, "sleep")
	// Another process writes it: a child that a parallel test starts meanwhile has what this
	// one writes to, and until it becomes its program nobody can start that (golang.org/issue/22315).
	if out, err := exec.Command("cp", sleep, path).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	p, other := Plane{Name: "planetest-20001"}, Plane{Name: "planetest-20002"}
	start := func(environ []string) string {
		process := exec.CommandContext(t.Context(), path, "600")
		process.Env = environ
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = process.Wait() })
		return fmt.Sprintf("%d %s", process.Process.Pid, path)
	}
	own, unmarked := start(p.Environ()), start([]string{})
	start(other.Environ())
	got := p.processes(bin)
	slices.Sort(got)
	want := []string{own, unmarked}
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("processes %v, want %v", got, want)
	}
}
