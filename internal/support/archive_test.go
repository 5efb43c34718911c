package support

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestArchiveIsBounded(t *testing.T) {
	var out bytes.Buffer
	c := &collector{archive: newArchive(&out, time.Now(), 10)}
	for name, text := range map[string]string{"large": strings.Repeat("x", 11)} {
		if err := c.put(name, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.put("small", "0123456789"); err != nil {
		t.Fatal(err)
	}
	if err := c.archive.add("more", "x"); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
	if len(c.missing) != 1 || c.missing[0] != "large: the bundle is full" {
		t.Errorf("missing %q", c.missing)
	}
	if err := c.archive.close(); err != nil {
		t.Fatal(err)
	}
	if files := unpack(t, &out); len(files) != 1 || files["small"] != "0123456789" {
		t.Errorf("files %q", files)
	}
}

// The end of a log is what tells; it begins with a whole line.
func TestTail(t *testing.T) {
	long := strings.Repeat("123456789\n", 50_000)
	for _, tc := range []struct {
		text  string
		limit int
		want  string
		cut   bool
	}{
		{"", 10, "", false},
		{"short\n", 10, "short\n", false},
		{"exactly10\n", 10, "exactly10\n", false},
		{"first\nsecond\n", 10, "second\n", true},
		{long, 25, "123456789\n123456789\n", true},
		{long, 100_000, strings.Repeat("123456789\n", 9_999), true},
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		text, cut, err := tail(file, tc.limit)
		if err != nil || cut != tc.cut || string(text) != tc.want {
			t.Errorf("of %d bytes of a file, the last %d: %v %t %.60q", len(tc.text), tc.limit, err, cut, text)
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
		text, cut, err = tail(struct{ *bytes.Buffer }{bytes.NewBufferString(tc.text)}, tc.limit)
		if err != nil || cut != tc.cut || string(text) != tc.want {
			t.Errorf("of %d bytes of a stream, the last %d: %v %t %.60q", len(tc.text), tc.limit, err, cut, text)
		}
	}
}
