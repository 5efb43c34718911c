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

// TestStandardKeys holds that cloud-init's standard keys have the value that they have there, in v1 and alone, or are
// refused: with cloud-init they exist on every machine, so that a test or a default would have another meaning.
func TestStandardKeys(t *testing.T) {
	const elsewhere = "REFUSED"
	ubuntu := map[string]string{"ID": "ubuntu", "VERSION_ID": "24.04", "VERSION_CODENAME": "noble", "VERSION": "24.04.1 LTS (Noble Numbat)"}
	for _, c := range []struct {
		template string
		system   map[string]string
		want     string
	}{
		{"{{ v1.distro }} {{ distro_version }} {{ v1['distro_release'] }}", ubuntu, "ubuntu 24.04 noble"},
		{"{{ distro }}-{{ distro_release }}", map[string]string{"ID": "rhel", "VERSION_ID": "9.4", "VERSION": "9.4 (Plow)"}, "redhat-Plow"},
		{"{{ distro_release }}", map[string]string{"ID": "opensuse-leap", "VERSION": "15.6"}, "x86_64"},
		{"{{ distro_release }}", map[string]string{"ID": "alpine", "PRETTY_NAME": "Alpine Linux v3.20"}, "Alpine Linux v3.20"},
		{"[{{ distro_release }}]", map[string]string{"ID": "arch"}, "[]"},
		{"{% if v1.distro == 'ubuntu' and v1.machine == 'x86_64' %}u{% else %}o{% endif %}", ubuntu, "u"},
		{"{{ machine }} {{ v1.kernel_release }}", nil, "x86_64 6.8.0"},
		{"{% if v1.distro is defined %}d{% else %}u{% endif %}", nil, elsewhere},
		{"{% if v1.region is defined %}d{% else %}u{% endif %}", ubuntu, elsewhere},
		{"{% if region is undefined %}d{% else %}u{% endif %}", ubuntu, elsewhere},
		{"{{ v1.cloud_name | default('none') }}", ubuntu, elsewhere},
		{"{{ v1['availability_zone'] | default('a') }}", ubuntu, elsewhere},
		{"{{ userdata | default('') }}", ubuntu, elsewhere},
		{"{{ sys_info | default('') }}", ubuntu, elsewhere},
		{"{% if 'region' in v1 %}y{% else %}n{% endif %}", ubuntu, "y"},
		{"{{ v1.nope | default('x') }}", ubuntu, "x"},
		{"{% set region = 'eu' %}{{ region }}", ubuntu, "eu"},
		{"{{ ds.meta_data.distro | default('of the datasource') }}", ubuntu, "of the datasource"},
	} {
		meta := testMeta
		meta.OSRelease, meta.Machine, meta.KernelRelease = c.system, "x86_64", "6.8.0"
		got, err := render(c.template, meta)
		if c.want == elsewhere {
			if e, ok := errors.AsType[*Error](err); !ok || !strings.Contains(e.Message, "cloud-init") {
				t.Errorf("%s renders to %q (%v), want it refused", c.template, got, err)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%s renders to %q (%v), want %q", c.template, got, err, c.want)
		}
	}
}
