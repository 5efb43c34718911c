// Package jinja renders templates as Jinja2 does, or refuses them. gonja parses them; what their
// parts mean is decided here: of some 8,600 small templates gonja gives a quarter another value
// than Jinja2, silently, and a node that registers under another name than its template
// says with every other provider is lost. What is not certain to mean the same is refused by its
// place.
//
// testdata/jinja2.json has what Jinja2 itself makes of such templates, written by
// testdata/table.py. Whoever supports more adds templates there first.
package jinja
