package display

import (
	"os"
	"strings"
	"testing"
)

// on is a page of a terminal of so many columns.
func on(columns int, color bool) *Page {
	return &Page{width: columns, height: 10, pills: true, color: color}
}

var hosts = Table{
	Columns: Columns("NAMESPACE/3", "NAME", "STATE", "FOR/1", "ADDRESS/2"),
	Rows: []Row{
		{Cells: []Cell{{Text: "default"}, {Text: "host-1"}, {Text: "Running", Role: OK}, {Text: "13m"}, {Text: "10.88.0.11"}}},
		{Cells: []Cell{{Text: "default"}, {Text: "host-2"}, {Text: "NodeUnwell", Role: Bad}, {Text: "4m"}, {Text: "10.88.0.12"}}, Notes: [][2]string{{"  because", "its kubelet stopped"}}},
	},
}

// Columns go by their rank, the highest first, and what is left fits; a pipe has them all and no shapes.
func TestTableFitsTheWidth(t *testing.T) {
	for name, tc := range map[string]struct {
		page *Page
		want string
	}{
		"a pipe":  {&Page{}, "NAMESPACE  NAME    STATE       FOR  ADDRESS\ndefault    host-1  Running     13m  10.88.0.11\ndefault    host-2  NodeUnwell  4m   10.88.0.12\n  because  its kubelet stopped\n"},
		"wide":    {on(80, false), "NAMESPACE  NAME    STATE         FOR  ADDRESS\ndefault    host-1  ✔ Running     13m  10.88.0.11\ndefault    host-2  ✗ NodeUnwell  4m   10.88.0.12\n  because  its kubelet stopped\n"},
		"narrow":  {on(45, false), "NAME    STATE         FOR  ADDRESS\nhost-1  ✔ Running     13m  10.88.0.11\nhost-2  ✗ NodeUnwell  4m   10.88.0.12\n  because  its kubelet stopped\n"},
		"a phone": {on(18, false), "NAME    STATE\nhost-1  ✔ Running\nhost-2  ✗ NodeUnw…\n  because  its kubelet stopped\n"},
	} {
		tc.page.Table(hosts)
		if got := tc.page.String(); got != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tc.want)
		}
		for line := range strings.Lines(tc.page.String()) {
			if !strings.Contains(line, "because") && tc.page.width > 0 && columns(line) > tc.page.width {
				t.Errorf("%s: %q is wider than %d", name, line, tc.page.width)
			}
		}
	}
	whole := on(22, false)
	whole.Whole()
	if whole.Table(hosts); !strings.Contains(whole.String(), "ADDRESS") {
		t.Errorf("-o wide lost a column:\n%s", whole)
	}
}

// Colours are around the text of a state and change no width; escapes of the text itself stay visible.
func TestColours(t *testing.T) {
	page := on(80, true)
	page.Table(Table{Rows: []Row{{Cells: []Cell{{Text: "R\x1b[31m", Role: OK}, {Text: "x\ny"}}}, {Cells: []Cell{{Text: "Lost", Role: Bad}, {Text: "z"}}}}})
	if got, want := page.String(), "\x1b[32m✔ R^[[31m\x1b[0m  x y\n\x1b[31m✗ Lost\x1b[0m     z\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Each role has a shape of its own, of one character, and a colour.
func TestShapes(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Shapes {
		if len([]rune(s.Glyph)) != 1 || s.colour == "" || s.Path == "" || seen[s.Glyph] || seen[s.colour] || seen[s.Path] || s.Role.shape() != s {
			t.Errorf("%+v", s)
		}
		seen[s.Glyph], seen[s.colour], seen[s.Path] = true, true, true
	}
	if len(Shapes) != 6 || Role("nonsense").shape().Role != Off {
		t.Errorf("%d shapes", len(Shapes))
	}
}

// Text is wrapped at words, and its lines stand below each other.
func TestParagraph(t *testing.T) {
	page := on(30, false)
	page.Paragraph("  remedy: ", "Give the clone an identity of its own")
	if got, want := page.String(), "  remedy: Give the clone an\n          identity of its own\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A page shows the rows that a terminal has, a wide line for as many as it takes, and says what is missing.
func TestRows(t *testing.T) {
	page := on(10, true)
	page.height = 6
	for _, line := range []string{"one", strings.Repeat("x", 15), "two", "three", "four"} {
		_, _ = page.Write([]byte(line + "\n"))
	}
	if shown, more := page.Rows(); shown != "one\nxxxxxxxxxxxxxxx\ntwo\n" || more != 2 {
		t.Errorf("%q, %d more", shown, more)
	}
	pipe := &Page{}
	_, _ = pipe.Write([]byte(strings.Repeat("a\n", 500)))
	if _, more := pipe.Rows(); more != 0 {
		t.Errorf("a pipe lacks %d lines", more)
	}
}

// Colours and shapes are for terminals, unless they are wanted always.
func TestScreenOfAPipe(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	defer writer.Close()
	for mode, screen := range map[string]bool{"auto": false, "never": false, "always": true} {
		out, err := On(writer, mode)
		s, is := out.(*Screen)
		if err != nil || is != screen || is && (s.Terminal || !s.color) {
			t.Errorf("--color=%s: %+v, %v", mode, out, err)
		}
	}
	if _, err := On(writer, "red"); err == nil || !strings.Contains(err.Error(), `--color "red": want auto, always or never`) {
		t.Errorf("got %v", err)
	}
}
