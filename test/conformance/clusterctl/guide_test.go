package clusterctl

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// The tests of this package run the commands of docs/clusterctl.md as they stand there,
// with names of their own for what a reader has to fill in.
const guidePath = "docs/clusterctl.md"

// guide is that document.
type guide struct {
	// steps are its commands, in order.
	steps []step
	// config is the clusterctl.yaml that it shows.
	config string

	mu       sync.Mutex
	followed []int
}

type step struct {
	section, text string
}

// notFollowed are the commands that no test here runs, by how they begin, and why.
var notFollowed = map[string]string{
	"install -m 0":                          "it is for a machine with systemd; test/vm has one, and `slipway host add` does it there",
	"slipway-agent preflight":               "the same",
	"systemctl enable --now slipway-agent":  "the same",
	"kubectl --kubeconfig demo.kubeconfig ": "the cluster of a plane has its network plugin already",
	"slipway up":                            "a plane of a test has flags of its own",
	"other=":                                "the same",
	"slipway $other up":                     "the same",
	"export KUBECONFIG=":                    "the same",
}

var (
	// fence finds code blocks: their indentation, language and text.
	fence   = regexp.MustCompile("(?ms)^( *)```(\\w+)\n(.*?)^ *```$")
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	// prompt begins a command of a console block, but no comment. Lines without one go on.
	prompt = regexp.MustCompile(`^[$#] ([^#].*)$`)
)

func readGuide(root string) (*guide, error) {
	data, err := os.ReadFile(filepath.Join(root, guidePath))
	if err != nil {
		return nil, err
	}
	g, page, section, end := &guide{}, string(data), "", 0
	for _, at := range fence.FindAllStringSubmatchIndex(page, -1) {
		if headings := heading.FindAllStringSubmatch(page[end:at[0]], -1); len(headings) > 0 {
			section = headings[len(headings)-1][1]
		}
		end = at[1]
		indent, language, block := page[at[2]:at[3]], page[at[4]:at[5]], page[at[6]:at[7]]
		switch {
		case language == "yaml" && g.config == "":
			g.config = block
		case language == "console":
			g.add(section, strings.Split(strings.ReplaceAll("\n"+block, "\n"+indent, "\n"), "\n")[1:])
		}
	}
	if len(g.steps) < 20 || g.config == "" {
		return nil, fmt.Errorf("%s: %d commands were found in it", guidePath, len(g.steps))
	}
	return g, nil
}

// add adds the commands of a console block.
func (g *guide) add(section string, lines []string) {
	begun := false
	for _, line := range lines {
		if match := prompt.FindStringSubmatch(line); match != nil {
			g.steps = append(g.steps, step{section, match[1]})
			begun = true
		} else if begun && !strings.HasPrefix(line, "# #") {
			last := &g.steps[len(g.steps)-1]
			last.text = strings.TrimSuffix(last.text+"\n"+line, "\n")
		}
	}
}

// take returns the commands of a section that have a text in them, as a script.
func (g *guide) take(section, containing string) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var script strings.Builder
	for i, s := range g.steps {
		if s.section == section && strings.Contains(s.text, containing) {
			script.WriteString(s.text + "\n")
			g.followed = append(g.followed, i)
		}
	}
	if script.Len() == 0 {
		return "", fmt.Errorf("%s: section %q has no command with %q", guidePath, section, containing)
	}
	return script.String(), nil
}

// untried tells of commands that nobody took, and of excuses for commands that are not there.
func (g *guide) untried() error {
	var errs []error
	excuses := maps.Clone(notFollowed)
	for i, s := range g.steps {
		excused := slices.Contains(g.followed, i)
		for prefix := range notFollowed {
			if strings.HasPrefix(s.text, prefix) {
				excused = true
				delete(excuses, prefix)
			}
		}
		if !excused {
			errs = append(errs, fmt.Errorf("%s, %s: no test runs `%s`", guidePath, s.section, s.text))
		}
	}
	for prefix := range excuses {
		errs = append(errs, fmt.Errorf("%s: there is no command `%s`", guidePath, prefix))
	}
	return errors.Join(errs...)
}

// follow runs the commands of a section of the guide that have a text in them, all of them
// in one shell, and returns what they print. What a reader fills in is replaced.
func (u *user) follow(section, containing string, replace ...string) string {
	u.t.Helper()
	script, err := shared.guide.take(section, containing)
	if err != nil {
		u.t.Fatal(err)
	}
	script = strings.NewReplacer(replace...).Replace(script)
	path := filepath.Join(u.home, "bin")
	if err := os.MkdirAll(path, 0o755); err != nil {
		u.t.Fatal(err)
	}
	for _, program := range []string{shared.clusterctl, shared.slipway, shared.kubectl} {
		if err := os.Symlink(program, filepath.Join(path, filepath.Base(program))); err != nil && !errors.Is(err, os.ErrExist) {
			u.t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(poll.Context(u.t), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = u.home
	cmd.Env = slices.Concat(os.Environ(), u.environ(), []string{"PATH=" + path + ":/usr/bin:/bin"})
	cmd.WaitDelay = time.Second // what the shell started may hold its output
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		u.t.Fatalf("%s, %s: %v\n%s\n%s%s", guidePath, section, err, script, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.String()
}
