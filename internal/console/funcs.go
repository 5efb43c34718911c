package console

import (
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/internal/console/view"
)

// funcs are what templates can do beside what they are.
var funcs = template.FuncMap{
	"utc":       func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"clock":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
	"lower":     strings.ToLower,
	"or0":       firstOf,
	"fleetURL":  fleetURL,
	"fleetPage": func(f view.FleetFilter, page int) string { return fleetURL(f, "page", strconv.Itoa(page)) },
	"pageURL":   func(page int) string { return "?" + url.Values{"page": {strconv.Itoa(page)}}.Encode() },
	"eventsURL": eventsURL,
	"decideURL": func(r view.Run, c view.Choice) string {
		u := url.URL{Path: "/lifecycle/" + r.Namespace + "/" + r.Name + "/decide", RawQuery: url.Values{"decision": {string(c.Decision)}, "step": {c.Step}}.Encode()}
		return u.String()
	},
}

func firstOf(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

// fleetURL is where a part of the fleet is shown: the filter there is, with one field
// changed. A field that has the value already is taken out of it.
func fleetURL(f view.FleetFilter, field, value string) string {
	query := url.Values{}
	for name, has := range map[string]string{"q": f.Text, "state": f.State, "domain": f.Domain} {
		if has != "" {
			query.Set(name, has)
		}
	}
	if f.Attention {
		query.Set("attention", "1")
	}
	if query.Get(field) == value {
		query.Del(field)
	} else {
		query.Set(field, value)
	}
	return (&url.URL{Path: "/fleet", RawQuery: query.Encode()}).String()
}

// eventsURL is where a part of the events is shown.
func eventsURL(f view.EventFilter, warnings bool, page int) string {
	query := url.Values{}
	if f.Text != "" {
		query.Set("q", f.Text)
	}
	if warnings {
		query.Set("warnings", "1")
	}
	if page > 1 {
		query.Set("page", strconv.Itoa(page))
	}
	return (&url.URL{Path: "/events", RawQuery: query.Encode()}).String()
}
