package provision_test

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/provision"
)

const snippetToken = "abcdef.0123456789abcdef"

// enrolls are the files that a machine has once it was told to enroll.
var enrolls = []string{"/etc/slipway/agent.yaml", "/etc/slipway/bootstrap-kubeconfig", "/etc/systemd/system/slipway-agent.service"}

// apply is what a machine does with a document.
var apply = map[provision.Format]func(b *bare, document string){
	provision.FormatShell:     func(b *bare, document string) { b.write("/run/enroll.sh", document); b.sh("sh /run/enroll.sh") },
	provision.FormatCloudInit: cloudInit,
	provision.FormatAnsible:   ansible,
}

// cloudInit writes each file, and sets its mode then, as cloud-init does; the commands come last.
func cloudInit(b *bare, document string) {
	b.t.Helper()
	var c struct {
		WriteFiles []struct{ Path, Content, Permissions, Owner string } `json:"write_files"` //nolint:tagliatelle // the format's own
		RunCmd     [][]string                                           `json:"runcmd"`
	}
	if err := yaml.UnmarshalStrict([]byte(document), &c); err != nil || !strings.HasPrefix(document, "#cloud-config\n") {
		b.t.Fatalf("%v\n%s", err, document)
	}
	for _, f := range c.WriteFiles {
		mode, err := strconv.ParseUint(f.Permissions, 8, 32)
		if err != nil || f.Owner != "root:root" {
			b.t.Fatalf("%s: %v, %s", f.Path, err, f.Owner)
		}
		b.write(f.Path, f.Content)
		if info, err := os.Stat(b.path(f.Path)); strings.Contains(f.Content, snippetToken) && (err != nil || info.Mode().Perm() != 0o600) {
			b.t.Errorf("everybody could read %s for a moment: %v, %v", f.Path, info.Mode(), err)
		}
		if err := os.Chmod(b.path(f.Path), fs.FileMode(mode)); err != nil {
			b.t.Fatal(err)
		}
	}
	for _, words := range c.RunCmd {
		b.sh(strings.Join(words, " "))
	}
}

func ansible(b *bare, document string) {
	b.t.Helper()
	var plays []struct {
		Name, Hosts string
		Become      bool
		Tasks       []struct {
			Name  string
			NoLog bool                                                `json:"no_log"`               //nolint:tagliatelle // the format's own
			Copy  *struct{ Dest, Content, Owner, Group, Mode string } `json:"ansible.builtin.copy"` //nolint:tagliatelle // the format's own
			File  *struct{ Path, State, Mode string }                 `json:"ansible.builtin.file"` //nolint:tagliatelle // the format's own
			Unit  *struct {
				Name, State  string
				Enabled      bool
				DaemonReload bool `json:"daemon_reload"` //nolint:tagliatelle // the format's own
			} `json:"ansible.builtin.systemd_service"` //nolint:tagliatelle // the format's own
		}
	}
	if err := yaml.UnmarshalStrict([]byte(document), &plays); err != nil || len(plays) != 1 || plays[0].Hosts != "told" || !plays[0].Become {
		b.t.Fatalf("%v\n%s", err, document)
	}
	for _, task := range plays[0].Tasks {
		switch {
		case task.Copy != nil:
			mode, err := strconv.ParseUint(task.Copy.Mode, 8, 32)
			if err != nil || strings.Contains(task.Copy.Content, snippetToken) != task.NoLog {
				b.t.Fatalf("%v, %+v", err, task)
			}
			b.write(task.Copy.Dest, strings.ReplaceAll(task.Copy.Content, "{{ inventory_hostname }}", "told"))
			if err := os.Chmod(b.path(task.Copy.Dest), fs.FileMode(mode)); err != nil {
				b.t.Fatal(err)
			}
		case task.Unit != nil && task.Unit.Enabled && task.Unit.State == "restarted":
			b.sh("systemctl daemon-reload; systemctl enable " + task.Unit.Name + "; systemctl restart " + task.Unit.Name)
		case task.File == nil:
			b.t.Errorf("%+v does nothing", task)
		}
	}
}

// Whatever tells a machine to enroll, it has the same files then, of the same modes, and an
// agent that runs.
func TestEnrollmentDocuments(t *testing.T) {
	w := newWorld(t)
	e := provision.Enrollment{Server: w.options.Server, CA: w.options.CA, Token: snippetToken, Namespace: w.options.Namespace, Hosts: []string{"told"}, Unit: config.AgentUnit}
	program, err := agent()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, f := range provision.Formats {
		document, err := e.Write(f)
		if err != nil {
			t.Fatal(err)
		}
		b := newBare(t, "any")
		b.write("/etc/hosts", "127.0.0.1 localhost example.com\n")
		b.write("/usr/local/bin/slipway-agent", string(data))
		apply[f](b, string(document))
		for _, path := range enrolls {
			info, err := os.Stat(b.path(path))
			if err != nil {
				t.Errorf("%s: %v", f, err)
				continue
			}
			got := info.Mode().String() + "\n" + strings.ReplaceAll(b.read(path), "'told'", "told")
			if want[path] == "" {
				want[path] = got
			}
			if got != want[path] {
				t.Errorf("%s: %s is %s, want %s", f, path, got, want[path])
			}
		}
		if log := b.read("/run/systemctl.log"); !b.has("/run/units/slipway-agent") || !strings.Contains(log, "enable slipway-agent.service") || !strings.Contains(log, "daemon-reload") {
			t.Errorf("%s: systemctl was told %s", f, log)
		}
	}
	if !strings.HasPrefix(want[enrolls[1]], "-rw-------\n") || !strings.Contains(want[enrolls[1]], snippetToken) || !strings.Contains(want[enrolls[0]], "hostName: told\n") {
		t.Errorf("%v", want)
	}
	e.Hosts = []string{"a", "b"}
	for _, f := range []provision.Format{provision.FormatShell, provision.FormatCloudInit, "xml"} {
		if out, err := e.Write(f); err == nil || out != nil {
			t.Errorf("%s for two: %s", f, out)
		}
	}
}
