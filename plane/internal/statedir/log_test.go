package statedir

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func contents(t *testing.T, path string) []string {
	t.Helper()
	var all []string
	for _, file := range LogFiles(path) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(data))
	}
	return all
}

func begin(t *testing.T, path, line string) *os.File {
	t.Helper()
	log, err := BeginLog(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	if _, err := log.WriteString(line); err != nil {
		t.Fatal(err)
	}
	return log
}

func TestBeginKeepsTheLast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plane.log")
	for n := range 7 {
		begin(t, path, fmt.Sprintf("%d", n))
	}
	if got, want := contents(t, path), []string{"6", "5", "4", "3", "2"}; !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// A plane that said nothing pushes no log out.
func TestBeginDropsAnEmptyLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plane.log")
	begin(t, path, "said")
	for range 7 {
		begin(t, path, "")
	}
	if got, want := contents(t, path), []string{"", "said"}; !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
}

// Two processes write to the descriptor: neither opens the file again.
func TestRotateWhileItIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plane.log")
	plane := begin(t, path, "")
	child, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	size := int64(100)
	for n := range 7 {
		for _, log := range []*os.File{plane, child} {
			if _, err := log.WriteString(strings.Repeat(fmt.Sprint(n), 60) + "\n"); err != nil {
				t.Fatal(err)
			}
			if err := rotate(path, size); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := child.WriteString("last\n"); err != nil {
		t.Fatal(err)
	}
	got := contents(t, path)
	want := []string{"last\n"}
	for n := 6; n > 2; n-- {
		want = append(want, strings.Repeat(strings.Repeat(fmt.Sprint(n), 60)+"\n", 2))
	}
	if !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
	if left, _ := filepath.Glob(path + "*"); len(left) != 1+older {
		t.Errorf("files %q", left)
	}
	if err := rotate(filepath.Join(t.TempDir(), "none"), size); err != nil {
		t.Errorf("a log that is not there: %v", err)
	}
}

func TestLastWords(t *testing.T) {
	const panics = "panic: index of a nil map [recovered]\n\tpanic: again\n\ngoroutine 1 [running]:\nmain.main()\n\thandler.go:42 +0x1\n"
	for name, tt := range map[string]struct {
		log, want string
		crashed   bool
	}{
		"nothing":                {"", "", false},
		"neither":                {"one\ntwo\n", "two", false},
		"an error":               {"one\nError: port 1 is busy\nplane.service: Main process exited, code=exited\n", "port 1 is busy", false},
		"a panic":                {"one\n" + panics, "panic: index of a nil map [recovered]", true},
		"the runtime":            {"fatal error: concurrent map writes\n\ngoroutine 1\n", "fatal error: concurrent map writes", true},
		"klog":                   {"F1128 10:00:00.0 7 main.go:1] no certificate\n", "F1128 10:00:00.0 7 main.go:1] no certificate", true},
		"a crash, then an error": {panics + "Error: port 1 is busy\n", "port 1 is busy", false},
		"an error, then a crash": {"Error: port 1 is busy\n" + panics, "panic: index of a nil map [recovered]", true},
		"killed":                 {panics + "plane.service: Main process exited, code=killed, status=9/KILL\n", "plane.service: Main process exited, code=killed, status=9/KILL", true},
		"a long line":            {"panic: " + strings.Repeat("x", 3*maxLine) + "\ntwo\n", "panic: " + strings.Repeat("x", maxLine-len("panic: ")), true},
		"a recovered panic":      {"http: panic serving 127.0.0.1:1: no\nE1128 10:00:00.0 7 runtime.go:1] \"Observed a panic\" panic=no\ntwo\n", "two", false},
	} {
		if line, crashed, err := LastWords(strings.NewReader(tt.log)); line != tt.want || crashed != tt.crashed || err != nil {
			t.Errorf("%s: %q, %v, %v; want %q, %v", name, line, crashed, err, tt.want, tt.crashed)
		}
	}
}
