package console

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"time"

	"github.com/slipway-dev/slipway/internal/console/view"
	"github.com/slipway-dev/slipway/internal/display"
)

// funcs are what templates can do beside what they are.
func (s *server) funcs() template.FuncMap {
	return template.FuncMap{
		"utc": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		// The console runs on the machine of its user.
		"clock":     func(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") },
		"age":       func(t time.Time) string { return age(s.now().Sub(t)) },
		"took":      took,
		"or0":       func(text, other string) string { return cmp.Or(text, other) },
		"bulk":      bulkButtons,
		"hostsURL":  hostsURL,
		"hostsPage": func(f view.HostFilter, page int) string { return hostsURL(f, "page", strconv.Itoa(page)) },
		"pageURL":   func(page int) string { return "?" + url.Values{"page": {strconv.Itoa(page)}}.Encode() },
		"eventsURL": eventsURL,
		"page":      view.PageOf,
		"shapes":    func() []display.Shape { return display.Shapes },
	}
}

// age is a duration in its largest unit; assets/console.js counts it on.
func age(d time.Duration) string {
	switch {
	case d < time.Second:
		return "0 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d d", d/(24*time.Hour))
}

// took is a duration that ended, of less than ten seconds to the tenth.
func took(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return age(d)
}

// hostsURL is where a part of the hosts is shown: the filter there is, with one field
// changed. A field that has the value already is taken out of it.
func hostsURL(f view.HostFilter, field, value string) string {
	query := url.Values{}
	for name, has := range map[string]string{"q": f.Text, "state": f.State, "domain": f.Domain, "cluster": f.Cluster, "version": f.Version, "attention": flag(f.Attention), "racks": flag(f.Racks)} {
		if has != "" {
			query.Set(name, has)
		}
	}
	if query.Get(field) == value {
		query.Del(field)
	} else {
		query.Set(field, value)
	}
	return (&url.URL{Path: "/hosts", RawQuery: query.Encode()}).String()
}

func flag(is bool) string {
	if is {
		return "1"
	}
	return ""
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
	return (&url.URL{Path: "/activity", RawQuery: query.Encode()}).String()
}
