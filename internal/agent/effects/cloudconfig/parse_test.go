package cloudconfig

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/cluster-api/util/certs"
)

var secretKeyPair = certs.KeyPair{Cert: []byte("CERT"), Key: []byte("KEY")}

func assertError(t *testing.T, err error, reason string, parts ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Reason != reason {
		t.Fatalf("error is %v, want one of reason %s", err, reason)
	}
	for _, p := range parts {
		if !strings.Contains(e.Message, p) {
			t.Errorf("message %q does not contain %q", e.Message, p)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		data, reason string
		parts        []string
	}{
		"nothing":              {"", ReasonUnsupportedFormat, []string{"empty", "format"}},
		"ignition":             {`{"ignition":{"version":"3.4.0"}}`, ReasonUnsupportedFormat, []string{"Ignition"}},
		"script":               {"#!/bin/sh\nreboot\n", ReasonUnsupportedFormat, []string{"script"}},
		"archive":              {"MIME-Version: 1.0\n\n#cloud-config\n", ReasonUnsupportedFormat, []string{"MIME"}},
		"no header":            {"runcmd: []\n", ReasonUnsupportedFormat, []string{header}},
		"not YAML":             {"#cloud-config\nruncmd: [\n", ReasonInvalidCloudConfig, []string{"YAML"}},
		"key twice":            {"#cloud-config\nruncmd: []\nruncmd: []\n", ReasonInvalidCloudConfig, []string{"line 3", `"runcmd"`, "line 2"}},
		"field twice":          {"#cloud-config\nwrite_files:\n- path: /a\n  content: secret\n  path: /b\n", ReasonInvalidCloudConfig, []string{"line 5", `"path"`, "line 3"}},
		"other ends of lines":  {"#cloud-config\nfqdn: \"a\u2028b\"\nhostname: n\nruncmd: [\"nano\"]\n", ReasonInvalidCloudConfig, []string{"quotes"}},
		"two documents":        {"#cloud-config\nruncmd: [a]\n---\nruncmd: [b]\n", ReasonInvalidCloudConfig, []string{"line 3", "second document"}},
		"an empty document":    {"#cloud-config\nruncmd: [a]\n---\n", ReasonInvalidCloudConfig, []string{"second document"}},
		"behind its end":       {"#cloud-config\nruncmd: [a]\n...\nruncmd: [b]\n", ReasonInvalidCloudConfig, []string{"YAML"}},
		"a broken document":    {"#cloud-config\nruncmd: [a]\n---\nruncmd: [\n", ReasonInvalidCloudConfig, []string{"YAML"}},
		"a list":               {"#cloud-config\n- a\n", ReasonInvalidCloudConfig, []string{"mapping"}},
		"unknown key":          {"#cloud-config\nrun_cmd: []\n", ReasonUnsupportedCloudConfig, []string{"run_cmd"}},
		"packages":             {"#cloud-config\npackages: [jq]\n", ReasonUnsupportedCloudConfig, []string{"packages", "preKubeadmCommands"}},
		"unknown field":        {"#cloud-config\nwrite_files: [{path: /a, source: {uri: x}}]\n", ReasonUnsupportedCloudConfig, []string{"write_files[0]", "source"}},
		"wrong type":           {"#cloud-config\nwrite_files: [{path: /a, append: secret}]\n", ReasonInvalidCloudConfig, []string{"write_files[0]", "append", "bool"}},
		"relative path":        {"#cloud-config\nwrite_files: [{path: a}]\n", ReasonInvalidCloudConfig, []string{"absolute"}},
		"unknown encoding":     {"#cloud-config\nwrite_files: [{path: /a, encoding: zip}]\n", ReasonInvalidCloudConfig, []string{"/a", "zip"}},
		"encoding twice":       {"#cloud-config\nwrite_files: [{path: /a, encoding: b64+b64}]\n", ReasonInvalidCloudConfig, []string{"b64+b64"}},
		"bad base64":           {"#cloud-config\nwrite_files: [{path: /a, encoding: b64, content: '%'}]\n", ReasonInvalidCloudConfig, []string{"/a", "base64"}},
		"bad gzip":             {"#cloud-config\nwrite_files: [{path: /a, encoding: gz+b64, content: aGVsbG8=}]\n", ReasonInvalidCloudConfig, []string{"gzip"}},
		"bad mode":             {"#cloud-config\nwrite_files: [{path: /a, permissions: rw}]\n", ReasonInvalidCloudConfig, []string{"permissions"}},
		"mode too large":       {"#cloud-config\nwrite_files: [{path: /a, permissions: '10000'}]\n", ReasonInvalidCloudConfig, []string{"permissions"}},
		"command is a map":     {"#cloud-config\nruncmd: [{a: b}]\n", ReasonInvalidCloudConfig, []string{"runcmd[0]"}},
		"command is empty":     {"#cloud-config\nruncmd: [ok, null]\n", ReasonInvalidCloudConfig, []string{"runcmd[1]"}},
		"word is a boolean":    {"#cloud-config\nruncmd: [[echo, yes]]\n", ReasonInvalidCloudConfig, []string{"runcmd[0]", "line 2", "quotes"}},
		"word is minutes":      {"#cloud-config\nbootcmd: [[sleep, 1:30]]\n", ReasonInvalidCloudConfig, []string{"bootcmd[0]", "quotes"}},
		"word is octal":        {"#cloud-config\nruncmd: [[chmod, 0644, /a]]\n", ReasonInvalidCloudConfig, []string{"runcmd[0]", "quotes"}},
		"word has a fraction":  {"#cloud-config\nruncmd: [[sleep, 1.10]]\n", ReasonInvalidCloudConfig, []string{"runcmd[0]", "quotes"}},
		"owner is minutes":     {"#cloud-config\nwrite_files:\n- {path: /a, owner: 33:33}\n", ReasonInvalidCloudConfig, []string{"line 3", "quotes"}},
		"address is hours":     {"#cloud-config\nwrite_files: [{path: /a, content: 12:34:56:12:34:56}]\n", ReasonInvalidCloudConfig, []string{"line 2", "quotes"}},
		"command is minutes":   {"#cloud-config\nruncmd: [1:30]\n", ReasonInvalidCloudConfig, []string{"line 2", "quotes"}},
		"commands no list":     {"#cloud-config\nbootcmd: reboot\n", ReasonInvalidCloudConfig, []string{"bootcmd"}},
		"default user":         {"#cloud-config\nusers: [default]\n", ReasonUnsupportedCloudConfig, []string{"default"}},
		"user without name":    {"#cloud-config\nusers: [{gecos: x}]\n", ReasonInvalidCloudConfig, []string{"users[0]", "name"}},
		"option as name":       {"#cloud-config\nusers: [{name: --root}]\n", ReasonInvalidCloudConfig, []string{"users[0]"}},
		"line break in sudo":   {"#cloud-config\nusers: [{name: a, sudo: \"ALL\\nb ALL\"}]\n", ReasonInvalidCloudConfig, []string{"users[0] (a)"}},
		"ntp server with room": {"#cloud-config\nntp: {servers: ['a b']}\n", ReasonInvalidCloudConfig, []string{"ntp"}},
		"ntp with a template":  {"#cloud-config\nntp: {config: {template: x}}\n", ReasonUnsupportedCloudConfig, []string{"ntp", "config"}},
		"header only rendered": {"## template: jinja\nruncmd: []\n", ReasonUnsupportedFormat, []string{header}},
		"too large":            {"#cloud-config\n" + strings.Repeat("#", maxInput), ReasonInvalidCloudConfig, []string{"limit"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(c.data), testMeta)
			if got != nil {
				t.Fatalf("parsed as %+v", got)
			}
			assertError(t, err, c.reason, c.parts...)
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error quotes the data: %v", err)
			}
		})
	}
}

func TestParseAccepts(t *testing.T) {
	c, err := Parse([]byte("#cloud-config\nhostname: h\nfqdn: h.example.com\npreserve_hostname: true\nusers:\nruncmd:\n- [echo, \"it's\", 1, 'true']\n- \"true\"\n"+
		"write_files:\n- {path: /a/../b, permissions: 0644}\n- {path: /c, permissions: '4755', owner: 1000:1000, defer: true, content: 'x'}\n"), testMeta)
	if err != nil {
		t.Fatal(err)
	}
	if c.Hostname != (Hostname{Name: "h", FQDN: "h.example.com", Preserve: true}) {
		t.Errorf("hostname is %+v", c.Hostname)
	}
	if want := `'echo' 'it'\''s' '1' 'true'`; c.RunCommands[0] != want || c.RunCommands[1] != "true" {
		t.Errorf("runcmd is %q, want %q", c.RunCommands, want)
	}
	if f := c.WriteFiles[0]; f.Path != "/b" || f.Mode != 0o644 || len(f.Content) != 0 {
		t.Errorf("file is %+v", f)
	}
	if f := c.WriteFiles[1]; f.Mode.Perm() != 0o755 || f.Mode.String()[0] != 'u' || f.User != "1000" || f.Group != "1000" || !f.Defer {
		t.Errorf("file is %+v", f)
	}
}

// One document is one, with a line before it and its end behind it.
func TestOneDocument(t *testing.T) {
	for _, data := range []string{"#cloud-config\nruncmd: [a]\nwrite_files: [{path: /a, owner: '33:33', content: \"1:30\"}, {path: /b, owner: 0:0}]\n", "#cloud-config\n---\nruncmd: [a]\n", "#cloud-config\nruncmd: [a]\n...\n", "#cloud-config\nruncmd: [a]\n...\n# the end\n"} {
		if c, err := Parse([]byte(data), testMeta); err != nil || len(c.RunCommands) != 1 {
			t.Errorf("%q: %+v, %v", data, c, err)
		}
	}
}

// Words of commands, with and without quotes around them, are what cloud-init makes of them, or refused. The table
// testdata/words.json is written by testdata/words.py with the YAML that cloud-init reads.
func TestWordsAreThoseOfCloudInit(t *testing.T) {
	content, err := os.ReadFile("testdata/words.json")
	if err != nil {
		t.Fatal(err)
	}
	var table [][2]*string
	if err := json.Unmarshal(content, &table); err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for _, c := range table {
		for _, form := range []string{"runcmd: [[x, %s]]", "bootcmd:\n- - &b %s # a comment\n  - *b\n", "runcmd:\n- - é\n  - %s"} {
			got, err := Parse([]byte("#cloud-config\n"+fmt.Sprintf(form, *c[0])), testMeta)
			switch {
			case err != nil:
				assertError(t, err, ReasonInvalidCloudConfig)
			case c[1] == nil:
				t.Errorf("%s: cloud-init refuses it, here it is %q %q", *c[0], got.RunCommands, got.BootCommands)
			default:
				accepted++
				if line := strings.Join(append(got.RunCommands, got.BootCommands...), ""); !strings.Contains(line, " '"+*c[1]+"'") && !strings.HasPrefix(line, "'"+*c[1]+"' ") {
					t.Errorf("%s: cloud-init writes %q, here the command is %s", *c[0], *c[1], line)
				}
			}
		}
	}
	if accepted < len(table) {
		t.Errorf("only %d of %d words are accepted", accepted, 3*len(table))
	}
	for _, word := range []string{"y", "n", "Y", "1.0", "0.25", "08", "1e3", "2026-12-01", "v1.36", "-7", "1.2.3", "10Gi"} {
		if _, err := Parse([]byte("#cloud-config\nruncmd: [[x, "+word+"]]\n"), testMeta); err != nil {
			t.Errorf("%s: %v", word, err)
		}
	}
}

// What cloud-init reads as text is text.
func TestTextIsThatOfCloudInit(t *testing.T) {
	c, err := Parse([]byte("#cloud-config\nhostname: n\nusers: [{name: y}, &u {name: &n n}]\nntp: {servers: [y]}\nwrite_files:\n- {path: /a, content: 1e3}\n"), testMeta)
	if err != nil || c.Hostname.Name != "n" || c.Users[0].Name != "y" || c.Users[1].Name != "n" || c.NTP.Servers[0] != "y" || string(c.WriteFiles[0].Content) != "1e3" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestEncodings(t *testing.T) {
	packed := func(data string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(data))
		_ = w.Close()
		return b.String()
	}
	coded := base64.StdEncoding.EncodeToString
	for encoding, content := range map[string]string{
		"": "hello", "text/plain": "hello", "b64": "aGVs\nbG8=\n", "BASE64": "aGVsbG8=", "gz": packed("hello"), "gzip": packed("hello"),
		"gz+b64": coded([]byte(packed("hello"))), "gzip+base64": coded([]byte(packed("hello"))), "b64+gz": coded([]byte(packed("hello"))),
	} {
		if got, err := decodeContent(content, encoding, 100); err != nil || string(got) != "hello" {
			t.Errorf("%q decodes to %q, %v", encoding, got, err)
		}
	}
}

// TestBombs feeds files that decode to far more than they take.
func TestBombs(t *testing.T) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(make([]byte, 1<<20))
	_ = w.Close()
	// 512 MiB: a gzip file may have many members, and to compress one is enough.
	bomb := fmt.Sprintf("- {path: /a, encoding: gz+b64, content: %q}\n", base64.StdEncoding.EncodeToString(bytes.Repeat(b.Bytes(), 512)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Parse([]byte("#cloud-config\nwrite_files:\n"+bomb+bomb), testMeta)
	runtime.ReadMemStats(&after)
	assertError(t, err, ReasonInvalidCloudConfig, "larger than")
	if grown := (after.TotalAlloc - before.TotalAlloc) >> 20; grown > 128 {
		t.Errorf("allocated %d MiB for it", grown)
	}
	aliases := "#cloud-config\na: &a [x,x,x,x,x,x,x,x,x]\n"
	for i := 'b'; i < 'k'; i++ {
		aliases += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	_, err = Parse([]byte(aliases), testMeta)
	assertError(t, err, ReasonInvalidCloudConfig, "YAML")
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "#cloud-config\n", "## template: jinja\n#cloud-config\nruncmd: ['{{ ds.meta_data.local_hostname }}']\n",
		"#cloud-config\nwrite_files: [{path: /a, encoding: gz+b64, content: H4sIAAAAAAAAA8tIzcnJBwCGphA2BQAAAA==, permissions: '0640', owner: 'a:b'}]\n",
		"## template: jinja\n#cloud-config\n{% raw %}a{% endraw %}{% if v1.instance_id %}{# c #}{% set x = 1 %}{% endif %}\n",
		"#cloud-config\nusers: [{name: a, sudo: [x], groups: 'b, c', inactive: true}]\nntp: {enabled: true, servers: [x]}\nbootcmd: [[a, 1]]\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data, testMeta)
		if (c == nil) == (err == nil) {
			t.Fatalf("config %v and error %v", c, err)
		}
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Reason == "" || e.Message == "" || len(e.Message) > 2048) {
			t.Fatalf("error is %v", err)
		}
		if c == nil {
			return
		}
		total := 0
		for _, file := range c.WriteFiles {
			total += len(file.Content)
			if !strings.HasPrefix(file.Path, "/") {
				t.Fatalf("path %q", file.Path)
			}
		}
		if total > maxFiles {
			t.Fatalf("files of %d bytes", total)
		}
	})
}
