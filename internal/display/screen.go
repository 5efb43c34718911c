package display

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"golang.org/x/term"
)

// ColorModes are the values of --color.
var ColorModes = []string{"auto", "always", "never"}

// Screen is an output with what it can show. Other writers are files and pipes: they get no colours, no
// shapes and whole lines.
type Screen struct {
	io.Writer
	// Terminal says that it can be drawn over; it has a size then.
	Terminal bool
	// color says that colours are shown, beside the shapes that each Screen has.
	color bool
}

// On returns out as a Screen when it is a terminal, or when colours are wanted always; out itself
// otherwise. In the mode auto a terminal has colours unless NO_COLOR is set, and TERM=dumb is no terminal.
func On(out io.Writer, mode string) (io.Writer, error) {
	if !slices.Contains(ColorModes, mode) {
		return nil, fmt.Errorf("--color %q: want auto, always or never", mode)
	}
	file, ok := out.(*os.File)
	terminal := ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
	if !terminal && mode != "always" {
		return out, nil
	}
	return &Screen{Writer: out, Terminal: terminal, color: mode == "always" || mode == "auto" && os.Getenv("NO_COLOR") == ""}, nil
}

// size of the terminal in columns and rows; 0 where there is no limit. COLUMNS and LINES come first.
func (s *Screen) size() (columns, rows int) {
	if !s.Terminal {
		return 0, 0
	}
	if file, ok := s.Writer.(*os.File); ok {
		columns, rows, _ = term.GetSize(int(file.Fd()))
	}
	return cmp.Or(number("COLUMNS"), columns), cmp.Or(number("LINES"), rows)
}

func number(variable string) int {
	n, _ := strconv.Atoi(os.Getenv(variable))
	return max(n, 0)
}
