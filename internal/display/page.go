package display

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Page collects what is shown at once. What is written to it is made visible; only Table writes colours.
type Page struct {
	text   strings.Builder
	width  int
	height int
	// whole keeps all columns.
	whole bool
	pills bool
	color bool
}

// NewPage returns an empty page for an output: a Screen, or a file or pipe of any width.
func NewPage(out io.Writer) *Page {
	p := &Page{}
	if s, ok := out.(*Screen); ok {
		p.width, p.height = s.size()
		p.pills, p.color = true, s.color
	}
	return p
}

// Width of a terminal in columns; 0 of a file or pipe, and of a terminal whose width is not known.
func Width(out io.Writer) int {
	if screen, err := On(out, "never"); err == nil {
		return NewPage(screen).width
	}
	return 0
}

// Whole has tables keep all columns, whatever the width.
func (p *Page) Whole() { p.whole = true }

// Write adds text.
func (p *Page) Write(text []byte) (int, error) {
	p.text.WriteString(Visible(string(text)))
	return len(text), nil
}

// CutHeader takes the first line off.
func (p *Page) CutHeader() {
	_, rest, _ := strings.Cut(p.text.String(), "\n")
	p.text.Reset()
	p.text.WriteString(rest)
}

func (p *Page) String() string { return p.text.String() }

// gap is between columns.
const gap = 2

// Cell of a table. One with a role has its shape before the text, where shapes are shown.
type Cell struct {
	Text string
	Role Role
}

// Column of a table.
type Column struct {
	Name string
	// Drop is the rank in which columns are left out where the width does not suffice, the highest first.
	// A column of rank 0 stays.
	Drop int
}

// Columns from their names, each with the rank in which it is left out behind a slash, as in "AGE/2".
func Columns(names ...string) []Column {
	columns := make([]Column, len(names))
	for i, name := range names {
		columns[i].Name = name
		if at := strings.LastIndex(name, "/"); at > 0 {
			if _, err := fmt.Sscan(name[at+1:], &columns[i].Drop); err == nil {
				columns[i].Name = name[:at]
			}
		}
	}
	return columns
}

// Table has rows below the names of its columns.
type Table struct {
	// Indent is before each line.
	Indent string
	// Columns; nil for rows without names of columns.
	Columns []Column
	Rows    []Row
}

// Row has a cell for each column.
type Row struct {
	Cells []Cell
	// Notes are lines below it: a label in the first column, and text behind that.
	Notes [][2]string
}

// Texts are cells without a role.
func Texts(texts ...string) []Cell {
	cells := make([]Cell, len(texts))
	for i, text := range texts {
		cells[i].Text = text
	}
	return cells
}

// Table adds a table. On a terminal that is too narrow it leaves columns out by their rank, then it shortens the
// longest cells; notes are wrapped.
func (p *Page) Table(t Table) {
	var lines []Row
	if t.Columns != nil {
		header := Row{}
		for _, c := range t.Columns {
			header.Cells = append(header.Cells, Cell{Text: c.Name})
		}
		lines = append(lines, header)
	}
	for _, row := range t.Rows {
		shown := Row{Notes: row.Notes}
		for _, cell := range row.Cells {
			cell.Text = Visible(strings.ReplaceAll(cell.Text, "\n", " "))
			if cell.Role != "" && p.pills {
				cell.Text = cell.Role.shape().Glyph + " " + cell.Text
			}
			shown.Cells = append(shown.Cells, cell)
		}
		lines = append(lines, shown)
	}
	keep, widths := p.fit(t, lines)
	for _, line := range lines {
		p.line(t.Indent, line.Cells, keep, widths)
		for _, note := range line.Notes {
			p.note(t.Indent, note, widths[0])
		}
	}
}

// fit returns the columns that are shown, and the widths of all.
func (p *Page) fit(t Table, lines []Row) (keep []int, widths []int) {
	for _, line := range lines {
		for i, cell := range line.Cells {
			if i == len(widths) {
				keep, widths = append(keep, i), append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell.Text))
		}
		for _, note := range line.Notes {
			widths[0] = max(widths[0], utf8.RuneCountInString(note[0]))
		}
	}
	excess := func() int {
		if p.width == 0 || p.whole {
			return 0
		}
		sum := len(t.Indent) - gap - p.width
		for _, i := range keep {
			sum += widths[i] + gap
		}
		return sum
	}
	rank := func(i int) int {
		if i < len(t.Columns) {
			return t.Columns[i].Drop
		}
		return 0
	}
	for excess() > 0 {
		last := slices.MaxFunc(keep, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
		if rank(last) == 0 {
			break
		}
		keep = slices.DeleteFunc(keep, func(i int) bool { return i == last })
	}
	const shortest = 8
	for over := excess(); over > 0; over = excess() {
		longest := slices.MaxFunc(keep, func(a, b int) int { return cmp.Compare(widths[a], widths[b]) })
		if widths[longest] <= shortest {
			break
		}
		widths[longest]--
	}
	return keep, widths
}

// line writes the cells of the columns that are kept, all but the last padded.
func (p *Page) line(indent string, cells []Cell, keep, widths []int) {
	p.text.WriteString(indent)
	for n, i := range keep {
		if i >= len(cells) {
			break
		}
		text := cells[i].Text
		if runes := []rune(text); len(runes) > widths[i] {
			text = string(runes[:widths[i]-1]) + "…"
		}
		padding := 0
		if n < len(keep)-1 {
			padding = widths[i] - utf8.RuneCountInString(text) + gap
		}
		if role := cells[i].Role; role != "" && p.color {
			text = "\x1b[" + role.shape().colour + "m" + text + "\x1b[0m"
		}
		p.text.WriteString(text + strings.Repeat(" ", max(padding, 0)))
	}
	p.text.WriteString("\n")
}

// note writes a label as wide as the first column, and text that is wrapped behind it.
func (p *Page) note(indent string, note [2]string, first int) {
	label := Visible(note[0])
	margin := len(indent) + first + gap
	p.text.WriteString(indent + label + strings.Repeat(" ", max(0, first-utf8.RuneCountInString(label))+gap))
	p.wrap(margin, Visible(note[1]))
}

// Paragraph adds text with a margin, wrapped at words where there is a width.
func (p *Page) Paragraph(margin, text string) {
	p.text.WriteString(margin)
	p.wrap(len(margin), Visible(text))
}

// wrap writes text behind a margin that the first line has already.
func (p *Page) wrap(margin int, text string) {
	room := p.width - margin
	if p.width == 0 || room < minRoom {
		p.text.WriteString(text + "\n")
		return
	}
	used := 0
	for word := range strings.FieldsSeq(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case used == 0:
		case used+1+length > room:
			p.text.WriteString("\n" + strings.Repeat(" ", margin))
			used = 0
		default:
			p.text.WriteString(" ")
			used++
		}
		p.text.WriteString(word)
		used += length
	}
	p.text.WriteString("\n")
}

// minRoom is the least width in which text is wrapped.
const minRoom = 20

// Rows returns the lines of the page that a terminal has rows for, and how many more there are. A line that is wider
// than the terminal counts for as many rows as it takes.
func (p *Page) Rows() (shown string, more int) {
	text := p.String()
	if p.height < 2 || p.width == 0 {
		return text, 0
	}
	used, end := 0, 0
	for line := range strings.Lines(text) {
		rows := max(1, (columns(line)+p.width-1)/p.width)
		if used += rows; used > p.height-2 {
			return text[:end], strings.Count(text[end:], "\n")
		}
		end += len(line)
	}
	return text, 0
}

// columns is how wide a line is: without its end and its colours.
func columns(line string) int {
	n := 0
	for len(line) > 0 {
		if rest, found := strings.CutPrefix(line, "\x1b["); found {
			_, line, _ = strings.Cut(rest, "m")
			continue
		}
		r, size := utf8.DecodeRuneInString(line)
		if r != '\n' {
			n++
		}
		line = line[size:]
	}
	return n
}
