package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

var consoleAddress = regexp.MustCompile(`http://127\.0\.0\.1:\d+/session\?token=\S+`)

// watching is a `slipway up --ui` that is done with what it brings up, and somebody's browser.
type watching struct {
	*invocation
	browser *http.Client
	base    string
}

// upWithConsole brings p up while somebody watches. The address works from when the plane
// answers; others may work on the plane as soon as all is up.
func upWithConsole(t *testing.T, p *plane, args ...string) *watching {
	t.Helper()
	w, printed := watch(t, p.command(append([]string{"up", "--ui"}, args...)...))
	printed("that all is up", func(text string) bool { return strings.Contains(text, "until you press Ctrl-C") })
	return w
}

// openConsole is the console of a plane that runs, and somebody's browser.
func openConsole(t *testing.T, p *plane) *watching {
	t.Helper()
	ui := p.command("ui")
	cmd := exec.Command(ui.Path, ui.Args[1:]...) // it lives as long as the test, however long one wait may last
	cmd.Env, ui.Cmd = ui.Env, cmd
	w, _ := watch(t, ui)
	return w
}

// watch starts a command that serves the console, and opens it; printed waits for what it prints.
func watch(t *testing.T, up *invocation) (w *watching, printed func(what string, found func(string) bool) string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "up")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	up.Stdout, up.Stderr = out, out
	w = &watching{invocation: up.start()}
	t.Cleanup(func() { _ = up.Process.Kill() })
	printed = func(what string, found func(string) bool) string {
		var text []byte
		poll.Until(t, "it prints "+what, func() (err error) {
			if text, err = os.ReadFile(file); err == nil && !found(string(text)) {
				err = fmt.Errorf("it printed %s", text)
			}
			return err
		})
		return string(text)
	}
	text := printed("the address of the console", consoleAddress.MatchString)
	address := consoleAddress.FindString(text)
	w.base, _, _ = strings.Cut(address, "/session")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.browser = &http.Client{Jar: jar}
	w.get(t, strings.TrimPrefix(address, w.base))
	return w, printed
}

func (w *watching) get(t *testing.T, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := w.browser.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s answers %s: %v\n%s", path, response.Status, err, body)
	}
	return string(body)
}

// leave ends the console by Ctrl-C.
func (w *watching) leave(t *testing.T) {
	t.Helper()
	if err := w.interrupt(0, syscall.SIGINT); err != nil {
		t.Errorf("Ctrl-C is no error: %v", err)
	}
}
