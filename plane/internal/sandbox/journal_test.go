package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A line has the time that it begins with, in each form that services of a host write, or that of the line before.
func TestShowLogSince(t *testing.T) {
	lines := []string{
		"before any time\n",
		"time=\"2026-01-01T00:00:00.5Z\" level=info msg=first\n",
		"time=2025-12-31T23:59:00.000Z level=INFO msg=back\n",
		"time=2026-01-01T00:00:10.000Z level=INFO msg=second\n",
		"of the second\n",
		time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC).Local().Format("I0102 15:04:05.000000") + "     146 file.go:1] third\n",
	}
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		q     LogQuery
		first int
	}{
		{LogQuery{Lines: 9}, 0},
		{LogQuery{Lines: 2}, 4},
		{LogQuery{Lines: 9, Since: begin}, 1},
		{LogQuery{Lines: 2, Since: begin}, 4},
		{LogQuery{Lines: 9, Since: begin.Add(time.Second)}, 3},
		{LogQuery{Lines: 9, Since: begin.Add(time.Minute)}, 5},
		{LogQuery{Lines: 9, Since: begin.Add(2 * time.Minute)}, 6},
	} {
		var out bytes.Buffer
		if err := ShowLog(t.Context(), &out, func() (*os.File, error) { return os.Open(path) }, tc.q); err != nil {
			t.Fatal(err)
		}
		if want := strings.Join(lines[tc.first:], ""); out.String() != want {
			t.Errorf("%+v shows %q, want %q", tc.q, out.String(), want)
		}
	}
}
