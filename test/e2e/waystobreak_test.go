package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// way is one way to break something, and how it ends.
type way struct {
	name string
	// kind and of are the object that doctor and the console name, once it is broken.
	kind string
	of   func(*ways) string
	// check is what all call it.
	check string
	// word is the state of the object where that is not the trouble, as of what is under way.
	word string
	// breaks breaks it; nil for what is so from the begin.
	breaks func(w *ways, name string)
	// command is what ends it: the next command of the finding, or one in its message; an expression.
	command string
	// first is what has to be done before the command, by hand where no command of the machine can, as plugging
	// in a cable.
	first func(w *ways, name string)
	// after makes good what the test broke besides.
	after func(w *ways, name string)
}

// ways is a plane on which things break, one after the other.
type ways struct {
	*plane
	console *watching
	// tools has slipway and kubectl as an operator of the plane has them.
	tools string
	// host is one that a way breaks while it is about another object.
	host string
	// quit ends what a way does meanwhile.
	quit chan struct{}
}

// state is what status, host list and cluster get say of one object.
type state struct {
	Role  string     `json:"role"`
	Word  string     `json:"word"`
	Since *time.Time `json:"since"`
	Cause string     `json:"cause"`
	Next  string     `json:"next"`
}

func (s state) String() string {
	return fmt.Sprintf("%s %s since %s: %s; next: %s", s.Role, s.Word, at(s.Since), s.Cause, s.Next)
}

func at(t *time.Time) string {
	if t == nil {
		return "?"
	}
	return t.UTC().Format(time.RFC3339)
}

// finding is one of doctor.
type finding struct {
	Check, Severity, Cluster, Message, Next string
	Object                                  struct{ Kind, Namespace, Name string }
	Since                                   *time.Time
}

// doctor runs doctor, and holds that its exit code follows from what it found.
func (w *ways) doctor() ([]finding, error) {
	var report struct{ Findings []finding }
	cmd := exec.Command(filepath.Join(w.bin, "slipway"), "--state-dir", w.StateDir, "doctor", "-o", "json")
	cmd.Env = w.Environ()
	out, err := cmd.Output()
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return nil, fmt.Errorf("doctor ends with %d: %w: %s", code, err, out)
	}
	want := 0
	if slices.ContainsFunc(report.Findings, func(f finding) bool { return f.Severity == "error" }) {
		want = 2
	}
	if code != want {
		return nil, fmt.Errorf("doctor ends with %d, want %d: %s", code, want, out)
	}
	return report.Findings, nil
}

// states are what `slipway status` says, by kind and name.
func (w *ways) states() (map[string]state, error) {
	var all struct {
		Clusters, Hosts []struct {
			Name  string
			State state
		}
	}
	out, err := w.run("status", "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &all)
	}
	states := map[string]state{}
	for _, h := range all.Hosts {
		states["Host "+h.Name] = h.State
	}
	for _, c := range all.Clusters {
		states["Cluster "+c.Name] = c.State
	}
	return states, err
}

// listed is what host list or cluster get says of an object.
func (w *ways) listed(kind, name string) (state, error) {
	var all []struct {
		Name  string
		State state
	}
	args := []string{"host", "list", "-o", "json"}
	if kind == "Cluster" {
		args = []string{"cluster", "get", "-o", "json"}
	}
	out, err := w.run(args...)
	if err == nil {
		err = json.Unmarshal([]byte(out), &all)
	}
	for _, o := range all {
		if o.Name == name {
			return o.State, err
		}
	}
	return state{}, errors.Join(err, fmt.Errorf("no %s %s in %s", kind, name, out))
}

var pill = regexp.MustCompile(`<span class="pill (\w+)"><svg aria-hidden="true"><use href="#i-\w+"/></svg>(\w+)</span>`)

// shown is what the console shows of an object on its own page.
func (w *ways) shown(t *testing.T, kind, name string) (state, string) {
	t.Helper()
	page := w.console.get(t, map[string]string{"Host": "/hosts/default/", "Cluster": "/clusters/default/"}[kind]+name)
	_, rest, _ := strings.Cut(page, "<h2>How it is</h2>")
	m := pill.FindStringSubmatch(rest)
	if m == nil {
		return state{}, page
	}
	return state{Role: m[1], Word: m[2]}, page
}

// agree waits until all say that the object has this trouble: doctor, status, the lists and the console, with
// the same name, begin, cause and command.
func (w *ways) agree(t *testing.T, x *way, name string, known []finding) finding {
	t.Helper()
	var found finding
	machine := ""
	if x.kind == "Host" && name != "" {
		machine = hostMachineOf(w.plane, name)
	}
	poll.Until(t, "all tell that "+x.name, func() error {
		findings, err := w.doctor()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(findings, func(f finding) bool {
			of := name == "" || f.Object.Name == name || machine != "" && f.Object.Name == machine || x.kind == "Cluster" && f.Cluster == name
			return f.Check == x.check && of && !slices.ContainsFunc(known, func(k finding) bool { return k.Check == f.Check && k.Object == f.Object })
		})
		if i < 0 {
			return fmt.Errorf("doctor finds %+v", findings)
		}
		found = findings[i]
		if found.Next == "" || found.Message == "" {
			return fmt.Errorf("doctor names neither cause nor command: %+v", found)
		}
		if x.kind == "Plane" {
			return nil // the console is the plane's
		}
		if found.Severity != "note" && x.kind != "Secret" {
			if inbox := html.UnescapeString(w.console.get(t, "/")); !strings.Contains(inbox, x.check) || !strings.Contains(inbox, found.Next) {
				return fmt.Errorf("the overview of the console has no %s with %q", x.check, found.Next)
			}
		}
		if x.kind != "Host" && x.kind != "Cluster" {
			return nil
		}
		name := cmp.Or(name, found.Object.Name)
		var states map[string]state
		var listed state
		var errs [2]error
		var looks sync.WaitGroup // each takes seconds on a busy machine
		looks.Go(func() { states, errs[0] = w.states() })
		looks.Go(func() { listed, errs[1] = w.listed(x.kind, name) })
		looks.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
		now := states[x.kind+" "+name]
		shown, page := w.shown(t, x.kind, name)
		page = html.UnescapeString(page)
		switch {
		case now.Word != cmp.Or(x.word, x.check) || x.word == "" && (now.Next != found.Next || at(now.Since) != at(found.Since)):
			return fmt.Errorf("status says %s, doctor %+v", now, found)
		case listed.String() != now.String():
			return fmt.Errorf("status says %s, the list %s", now, listed)
		case shown.Role != now.Role || shown.Word != now.Word:
			return fmt.Errorf("status says %s, the console %s %s", now, shown.Role, shown.Word)
		case now.Since != nil && !strings.Contains(page, `datetime="`+at(now.Since)+`"`):
			return fmt.Errorf("the page of the console does not say since %s", at(now.Since))
		case x.word == "" && !strings.Contains(page, found.Next):
			return fmt.Errorf("the page of the console does not name %q", found.Next)
		}
		return nil
	})
	return found
}

var quoted = regexp.MustCompile("`([^`]+)`")

// end runs the command that a finding names.
func (w *ways) end(t *testing.T, x *way, f finding) {
	t.Helper()
	wanted, commands := regexp.MustCompile(`^(?:on the host: )?(?:`+x.command+`)`), []string{f.Next}
	for _, m := range quoted.FindAllStringSubmatch(f.Message, -1) {
		commands = append(commands, m[1])
	}
	i := slices.IndexFunc(commands, wanted.MatchString)
	if i < 0 {
		t.Fatalf("no command like %s among %q: %+v", x.command, commands, f)
	}
	if command, on := strings.CutPrefix(commands[i], "on the host: "); on {
		host := f.Object.Name
		if f.Object.Kind != "Host" {
			host = strings.TrimSpace(w.mustKubectl("", "get", "hostmachine", host, "-o", "jsonpath={.status.hostRef.name}"))
		}
		w.on(host, "sh", "-ec", command)
		return
	}
	cmd := exec.Command("sh", "-ec", commands[i])
	cmd.Env = append(w.Environ(), "PATH="+w.tools+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", commands[i], err, out)
	}
}

// gone waits until nobody finds this any more.
func (w *ways) gone(t *testing.T, x *way, name string, f finding) {
	t.Helper()
	poll.Until(t, "the trouble ends: "+x.name, func() error {
		findings, err := w.doctor()
		if err != nil {
			return err
		}
		for _, now := range findings {
			if now.Check == f.Check && now.Object == f.Object {
				return fmt.Errorf("doctor still finds %+v", now)
			}
		}
		if x.kind != "Host" && x.kind != "Cluster" {
			return nil
		}
		states, err := w.states()
		if now := states[x.kind+" "+cmp.Or(name, f.Object.Name)]; err == nil && now.Word == f.Check {
			err = fmt.Errorf("status still says %s", now)
		}
		return err
	})
}

// TestWaysToBreak breaks a plane with real kubelets in many ways, one after the other. Doctor, status, the lists, the
// console and the exit code agree on cause and age of each, each names a command, and that command ends it.
func TestWaysToBreak(t *testing.T) {
	level.Deep(t)
	w := &ways{plane: newPlane(t, 5)}
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(clusterOf(current, "machineDeployments: [{class: default-worker, name: md, replicas: 2}]")), 0o600); err != nil {
		t.Fatal(err)
	}
	w.up("--fast", "--hosts", "5", "-f", file)
	w.eventually("three ready nodes", readyNodes(3))
	w.tools = w.toolbox(t, file)
	w.console = openConsole(t, w.plane)
	var table strings.Builder
	for i := range theWays {
		x := &theWays[i]
		if !t.Run(x.name, func(t *testing.T) {
			q, p := *w, *w.plane
			p.t, q.plane = t, &p
			settled(&q) // the way before may have ended a moment ago
			var known []finding
			if x.breaks != nil {
				var err error
				if known, err = q.doctor(); err != nil {
					t.Fatal(err)
				}
			}
			name := ""
			if x.of != nil {
				name = x.of(&q)
			}
			begin := time.Now()
			if x.breaks != nil {
				x.breaks(&q, name)
			}
			broken := time.Since(begin)
			first := sync.OnceFunc(func() {
				if x.first != nil {
					x.first(&q, name)
				}
			})
			defer first() // those after it find the plane whole
			found := q.agree(t, x, name, known)
			agreed := time.Since(begin) - broken
			first()
			if x.command != "" {
				q.end(t, x, found)
			}
			if x.after != nil {
				x.after(&q, name)
			}
			begin = time.Now()
			q.gone(t, x, name, found)
			fmt.Fprintf(&table, "| %s | %s | all agree after %.0fs | %s | ended after %.0fs |\n", x.name, found.Check, agreed.Seconds(), found.Next, time.Since(begin).Seconds())
		}) && os.Getenv(goOn) == "" {
			break
		}
	}
	t.Logf("%d ways\n%s", len(theWays), table.String())
}

// goOn has the test go on after a way that failed, to see what becomes of the others.
const goOn = "SLIPWAY_TEST_GO_ON"

// toolbox is a folder with slipway and kubectl as an operator of the plane has them.
func (w *ways) toolbox(t *testing.T, cluster string) string {
	t.Helper()
	dir := t.TempDir()
	kubeconfig, err := w.kubeconfig("")
	if err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"slipway": fmt.Sprintf("export SLIPWAY_STATE_DIR=%q\n[ \"$1\" != up ] || set -- \"$@\" -f %q\nexec %q \"$@\"\n", w.StateDir, cluster, filepath.Join(w.bin, "slipway")),
		"kubectl": fmt.Sprintf("export KUBECONFIG=%q\nexec %q \"$@\"\n", kubeconfig, filepath.Join(w.bin, "kubectl")),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
