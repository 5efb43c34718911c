package display

// Role says how a state is to be taken: whether somebody must act. It decides shape and colour.
type Role string

// The roles.
const (
	// OK is as it should be.
	OK Role = "ok"
	// Work is what Slipway or Cluster API does at the moment; it ends by itself.
	Work Role = "work"
	// Wait is what waits for a person or a window.
	Wait Role = "wait"
	// Bad is what somebody must act on: doctor has an error or a warning about it.
	Bad Role = "bad"
	// Free is a host that may be claimed.
	Free Role = "free"
	// Off is paused or kept back, or in trouble for less than a minute, or not known.
	Off Role = "off"
)

// Shape is how a role is drawn, so that nobody has to tell colours apart.
type Shape struct {
	Role Role
	// Glyph is one character of a terminal, and colour the parameter of its SGR sequence.
	Glyph, colour string
	// Path is that of the console, in a square of 10 by 10. Its colours, for light and dark pages, are the
	// variables of its style sheet that have the role's name.
	Path string
}

// Shapes of all roles.
var Shapes = []Shape{
	{OK, "✔", "32", "M5 0a5 5 0 1 0 0 10A5 5 0 1 0 5 0z"},
	{Work, "●", "36", "M5 0a5 5 0 1 1-5 5h5z"},
	{Wait, "◐", "33", "M1 0h8L6 5l3 5H1l3-5z"},
	{Bad, "✗", "31", "M5 0l5 10H0z"},
	{Free, "○", "34", "M5 0a5 5 0 1 0 0 10A5 5 0 1 0 5 0zm0 2a3 3 0 1 1 0 6 3 3 0 1 1 0-6z"},
	{Off, "–", "2", "M0 4h10v2H0z"},
}

// shape of a role; the one of Off for a role that is none.
func (r Role) shape() Shape {
	for _, s := range Shapes {
		if s.Role == r {
			return s
		}
	}
	return Shapes[len(Shapes)-1]
}
