package jinja

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
)

func variables() map[string]any {
	const name, id = "node-1.rack.example.com", "claim-1"
	return map[string]any{
		"local_hostname": name, "instance_id": id,
		"v1": map[string]any{"local_hostname": name, "instance_id": id},
		"ds": map[string]any{"meta_data": map[string]any{
			"local_hostname": name, "instance_id": id, "hostname": name, "provider_id": "slipway://ns/host-1/claim-1", "local_ipv4": "10.0.0.7",
		}},
	}
}

const limit = 1 << 20

// table is what Jinja2 makes of templates; nil of those that it refuses.
func table(t testing.TB) map[string]*string {
	t.Helper()
	content, err := os.ReadFile("testdata/jinja2.json")
	if err != nil {
		t.Fatal(err)
	}
	var pairs [][2]*string
	if err := json.Unmarshal(content, &pairs); err != nil {
		t.Fatal(err)
	}
	all := map[string]*string{}
	for _, pair := range pairs {
		all[*pair[0]] = pair[1]
	}
	return all
}

// A template means what Jinja2 means, or is refused. More than a third of those that Jinja2 renders are
// rendered: the rest are kinds of values that bootstrap data has no use for.
func TestMeansWhatJinja2Means(t *testing.T) {
	rendered, possible := 0, 0
	for template, want := range table(t) {
		got, err := Render(template, variables(), limit)
		if want != nil {
			possible++
		}
		switch {
		case err != nil:
		case want == nil:
			t.Errorf("%q renders to %q, and Jinja2 refuses it", template, got)
		case got != *want:
			t.Errorf("%q renders to %q, by Jinja2 to %q", template, got, *want)
		default:
			rendered++
		}
	}
	if t.Logf("%d of %d templates are rendered", rendered, possible); rendered < possible/3 {
		t.Errorf("only %d of %d templates are rendered", rendered, possible)
	}
}

// What bootstrap data of other providers uses is rendered, as Jinja2 renders it.
func TestSupported(t *testing.T) {
	jinja2 := table(t)
	for _, template := range []string{
		"{{ v1.local_hostname }}", "{{ local_hostname }}", "{{ instance_id }}", "{{ ds.meta_data['local_hostname'] }}",
		"{{ v1.local_hostname.split('.')[0] }}", "{{ v1.local_hostname.split('.', 1)[0] ~ '-x' }}", "{{ v1.local_hostname.split('-', 1)[1] }}",
		"{{ ('a.b').rsplit('.', 1)[0] }}", "{{ ('a.b').partition('.')[0] }}", "{{ ('a.b').replace('.', '-') }}", "{{ 'aXbXc'.replace('X', '', 1) }}",
		"{{ v1.local_hostname.split('.')[1:]|join('.') }}", "{{ v1.local_hostname[0:4] }}", "{{ v1.local_hostname.upper().split('.')[0].lower() }}",
		"{{ v1.local_hostname | replace('.', '-') | upper }}", "{{ nope | default('a') | upper }}", "{{ ds.meta_data.nope | default(v1.local_hostname) }}",
		"{{ ds.meta_data.local_ipv4|default('0.0.0.0') }}", "{{ '' or 'fallback' }}", "{{ 'a' if nope is defined else 'b' }}", "{{ '10'|int + 1 }}",
		"{{ -7 // 2 }}", "{{ -7 % 3 }}", "{{ 1 + 2 * 3 }}", "{{ ds.meta_data.provider_id.split('/')[-1] }}",
		"{% if 'rack' in v1.local_hostname %}r{% endif %}", "{% if v1.local_hostname.startswith('node-') %}n{% endif %}",
		"{% if v1.local_hostname is defined and v1.local_hostname|length > 3 %}n{% endif %}",
		"{% set x = v1.local_hostname.split('.')[0] %}{{ x }}-{{ x }}", "{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
		"{% raw %}\n{{ x }}\n{% endraw %}\n", "{# c #}\na", "a {{- 'x' -}} b",
	} {
		want := jinja2[template]
		if want == nil {
			t.Errorf("%q is not in the table: add it to testdata/table.py", template)
			continue
		}
		if got, err := Render(template, variables(), limit); err != nil || got != *want {
			t.Errorf("%q renders to %q (%v), by Jinja2 to %q", template, got, err, *want)
		}
	}
}

func TestErrors(t *testing.T) {
	const secret = "hunter2-hunter2"
	for name, c := range map[string]struct {
		in           string
		line, column int
		want         string
	}{
		"unknown name":        {"a\nb: {{ nope }}\n", 2, 7, `"nope" has no value`},
		"unknown key":         {"{{ ds.meta_data.nope }}", 1, 16, `"ds.meta_data.nope" has no value`},
		"unknown in a branch": {"a\n{% if nope %}x{% endif %}", 2, 7, "nope"},
		"unknown filter":      {"{{ 'a' | center(100000000) }}", 1, 10, `no filter "center"`},
		"unknown method":      {"\n  {{ 'a'.zfill(5) }}", 2, 15, "methods endswith"},
		"unknown test":        {"{{ 'a' is odd }}", 1, 11, `"odd"`},
		"operator":            {"{{ '%03d' % 7 }}", 1, 11, "operator %"},
		"power":               {"{{ 2 ** 10 }}", 1, 6, "operator **"},
		"none":                {"{{ none }}", 1, 4, "none is not supported"},
		"fraction":            {"{{ 2.5 | int }}", 1, 4, "fraction"},
		"list":                {"{{ 'a.b'.split('.') }}", 1, 15, "join"},
		"chain":               {"{{ 1 < 2 < 3 }}", 1, 10, "chained"},
		"loop":                {"a\n{% for i in [1] %}{{ i }}{% endfor %}", 2, 4, `statement "for"`},
		"include":             {"{% include '/etc/shadow' %}", 1, 4, `statement "include"`},
		"global":              {"{{ range(10) }}", 1, 0, "call"},
		"not closed":          {"a\n{{ x", 2, 0, ""},
		"shell that opens a comment": {
			"a\nn=${#array[@]}\n", 2, 4, "{# opens a comment",
		},
		"too long": {"{{ 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.replace('a', v1.local_hostname) }}", 1, 1, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Render("token: "+secret+"\n"+c.in, variables(), 200)
			e := (*Error)(nil)
			if !errors.As(err, &e) {
				t.Fatalf("rendered to %q (%v), want an *Error", got, err)
			}
			if e.Line != c.line+1 || c.column != 0 && e.Column != c.column || !strings.Contains(e.Message, c.want) {
				t.Errorf("%d:%d %s, want line %d, column %d and %q", e.Line, e.Column, e.Message, c.line+1, c.column, c.want)
			}
			if strings.Contains(e.Message, secret) {
				t.Errorf("the message quotes the data: %s", e.Message)
			}
		})
	}
}

// Whatever comes in, it is rendered within the limit or refused.
func FuzzRender(f *testing.F) {
	for template := range table(f) {
		f.Add(template)
	}
	f.Fuzz(func(t *testing.T, template string) {
		out, err := Render(template, variables(), 1<<10)
		if wrong := (*Error)(nil); err != nil && !errors.As(err, &wrong) {
			t.Errorf("%q: %T is no *Error", template, err)
		}
		if len(out) > 1<<10+1 {
			t.Errorf("%q renders to %d bytes", template, len(out))
		}
	})
}
