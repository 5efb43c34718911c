package cli

import (
	"bytes"
	"context"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// screen is what a command prints while it runs.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestConsole(t *testing.T) {
	kubeconfig := as(t, "", "")
	namespace := env.Namespace(t)
	create(t, host(namespace, "seen-in-the-browser", "r1"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out screen
	root := plugin()
	root.SetOut(&out)
	root.SetArgs([]string{"ui", "--kubeconfig", kubeconfig, "-n", namespace})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/session\?token=\S+`)
	poll.True(t, "the address is printed", func() bool { return address.MatchString(out.String()) })
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	link := address.FindString(out.String())
	if code, _ := fetch(t, browser, link); code != http.StatusOK {
		t.Fatalf("the address answers %d", code)
	}
	base, _, _ := strings.Cut(link, "/session")
	if code, page := fetch(t, browser, base+"/"); code != http.StatusOK || !strings.Contains(page, "seen-in-the-browser") || !strings.Contains(page, `context &#34;mgmt&#34;`) {
		t.Errorf("the fleet answers %d:\n%s", code, page)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("an interrupt is not an error: %v", err)
	}
	if _, err := run(t, "ui", "--kubeconfig", kubeconfig, "--address", "0.0.0.0:0"); err == nil || !strings.Contains(err.Error(), "loopback only") {
		t.Errorf("it listens everywhere: %v", err)
	}
}

func fetch(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var page bytes.Buffer
	if _, err := page.ReadFrom(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, page.String()
}

// The interrupt that ends the console does not end the browser.
func TestTheBrowserIsLeftOpen(t *testing.T) {
	dir := t.TempDir()
	started, done := filepath.Join(dir, "started"), filepath.Join(dir, "done")
	script := "#!/bin/sh\necho $$ > " + started + ".new\nmv " + started + ".new " + started + "\nwhile test -e " + started + "; do sleep 0.05; done\necho > " + done + "\n"
	for _, opener := range []string{"xdg-open", "open"} {
		if err := os.WriteFile(filepath.Join(dir, opener), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithCancel(t.Context())
	leave, err := openBrowser(ctx, "http://127.0.0.1:1/session?token=x")
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	is := func(path string) func() bool {
		return func() bool { _, err := os.Stat(path); return err == nil }
	}
	poll.True(t, "the browser starts", is(started))
	text, err := os.ReadFile(started)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if session, err := unix.Getsid(pid); err != nil || session != pid {
		t.Errorf("it is of the session %d of another: %v", session, err)
	}
	// A process of the context is killed, by then this one would be, too.
	other := exec.CommandContext(ctx, "sleep", "infinity")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = other.Wait()
	if err := os.Remove(started); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "the browser goes on", is(done))
}
