package cloudconfig

import (
	"errors"
	"strings"
	"testing"
)

var testMeta = MetaData{LocalHostname: "host-1", InstanceID: "claim-1", ProviderID: "slipway://ns/host-1/claim-1", DefaultInterface: "eth0"}

func TestRender(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"plain text":             {"a\nb\n", "a\nb\n"},
		"trailing newlines":      {"a\n\n\n", "a\n\n\n"},
		"hostname":               {"n: '{{ ds.meta_data.local_hostname }}'\n", "n: 'host-1'\n"},
		"standard variables":     {"{{ v1.local_hostname }} {{ v1.instance_id }}", "host-1 claim-1"},
		"at top level":           {"{{ local_hostname }} {{ instance_id }}", "host-1 claim-1"},
		"with a dash":            {"{{ v1['local-hostname'] }} {{ ds.meta_data['instance-id'] }}", "host-1 claim-1"},
		"default interface":      {"{{ ds.meta_data.default_interface }}", "eth0"},
		"index":                  {"{{ ds.meta_data['provider_id'] }}", "slipway://ns/host-1/claim-1"},
		"filters":                {"{{ ds.meta_data.local_hostname | upper | replace('-', '_') }}", "HOST_1"},
		"raw":                    {"{% raw %}{{ .Values.x }} {% if %} {# no #}{% endraw %}\n", "{{ .Values.x }} {% if %} {# no #}\n"},
		"raw keeps the rest":     {"a {% raw %}{{x}}{% endraw %} b\n", "a {{x}} b\n"},
		"comment":                {"a{# gone #}b\n", "ab\n"},
		"if":                     {"{% if ds.meta_data.local_hostname == 'host-1' %}\nyes\n{% else %}\nno\n{% endif %}\nend\n", "yes\nend\n"},
		"shell is left alone":    {"x=${Y:-1}; awk '{print $1}' %d 100%\n", "x=${Y:-1}; awk '{print $1}' %d 100%\n"},
		"default of the unknown": {"{{ ds.meta_data.nope | default('x') }}", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := render(c.in, testMeta)
			if err != nil || got != c.want {
				t.Fatalf("rendered %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

func TestRenderErrorsNameThePlaceAndQuoteNothing(t *testing.T) {
	const secret = "hunter2-hunter2"
	for name, c := range map[string]struct{ in, want string }{
		"unknown key":       {"a\nb: {{ ds.meta_data.nope }}\n", "nope"},
		"unknown variable":  {"{{ nope }}", "nope"},
		"unknown source":    {"{{ ec2.region }}", "ec2"},
		"not closed":        {"a\n{{ x", "line 2"},
		"loop":              {"{% for i in [1] %}{{ i }}{% endfor %}", "statements if"},
		"include":           {"{% include '/etc/shadow' %}", "statements if"},
		"global":            {"{{ range(10) }}", ""},
		"filter":            {"{{ ds.meta_data.local_hostname | center(100000000) }}", ""},
		"local ip, unknown": {"{{ ds.meta_data.local_ipv4 }}", "local_ipv4"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := render("token: "+secret+" "+c.in, testMeta)
			var e *Error
			if !errors.As(err, &e) || e.Reason != ReasonInvalidTemplate {
				t.Fatalf("got %q and error %v, want reason %s", got, err, ReasonInvalidTemplate)
			}
			if !strings.Contains(e.Message, c.want) {
				t.Errorf("message %q does not contain %q", e.Message, c.want)
			}
			if strings.Contains(e.Message, secret) {
				t.Errorf("message quotes the data: %q", e.Message)
			}
		})
	}
}
