package text_test

import (
	"testing"

	"github.com/slipway-dev/slipway/internal/text"
)

func TestText(t *testing.T) {
	cases := map[string]struct{ got, want string }{
		"lines":            {text.OneLine(" a\n\tb  c\n"), "a b c"},
		"no item":          {text.List(nil, 2), ""},
		"all items":        {text.List([]string{"a", "b"}, 2), "a, b"},
		"some items":       {text.List([]string{"a", "b", "c", "d"}, 2), "a, b and 2 more"},
		"short":            {text.Start("häuser", 7), "häuser"},
		"long":             {text.Start("häuser", 4), "häu..."},
		"within a letter":  {text.Start("häuser", 2), "h..."},
		"no UTF-8":         {text.Start("h\xe4user", 20), "h\uFFFDuser"},
		"no UTF-8 is long": {text.Start("h\xe4user", 4), "h\uFFFD..."},
	}
	for name, c := range cases {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
}
