package bootstrap_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/bootstrap"
	"github.com/slipway-dev/slipway/internal/agent/effects/cloudconfig"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// progress is an operation.Progress on a journal in memory.
type progress struct {
	j     *journal.Journal
	steps []string
}

func newProgress(t *testing.T) *progress {
	t.Helper()
	p := &progress{j: journal.InMemory()}
	if err := p.j.Update(func(s *journal.State) { s.Operation = &journal.Operation{} }); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *progress) Begin(step string) error                  { p.steps = append(p.steps, step); return nil }
func (p *progress) Done() error                              { return nil }
func (p *progress) State() journal.State                     { return p.j.State() }
func (p *progress) Update(change func(*journal.State)) error { return p.j.Update(change) }

func apply(t *testing.T, h *fakehost.Host, p *progress, data string) error {
	t.Helper()
	config, err := cloudconfig.Parse([]byte("#cloud-config\n"+strings.ReplaceAll(data, "ROOT", string(h.Root))), cloudconfig.MetaData{})
	if err != nil {
		t.Fatal(err)
	}
	return h.Executor.Applier.Apply(t.Context(), config, p)
}

func put(t *testing.T, h *fakehost.Host, path, content string) {
	t.Helper()
	full := h.Root.Path(path)
	if err := os.MkdirAll(full[:strings.LastIndex(full, "/")], 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, h *fakehost.Host, path string) string {
	t.Helper()
	data, err := os.ReadFile(h.Root.Path(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestOrderIsThatOfCloudInit(t *testing.T) {
	h, p := fakehost.New(t), newProgress(t)
	put(t, h, "/usr/lib/systemd/systemd-timesyncd", "")
	h.Programs.Missing = []string{"chronyd"}
	err := apply(t, h, p, `
runcmd: ["true", "true"]
ntp: {servers: [a]}
users: [{name: u}]
hostname: h
write_files: [{path: /a}, {path: /b, defer: true}]
bootcmd: ["true"]
`)
	if err != nil {
		t.Fatal(err)
	}
	want := "bootcmd|bootcmd 1 of 1|write_files|hostname|users|ntp|write_files, deferred|runcmd|runcmd 1 of 2|runcmd 2 of 2"
	if got := strings.Join(p.steps, "|"); got != want {
		t.Errorf("steps %q, want %q", got, want)
	}
	if p.State().Residue != journal.ResidueCommands {
		t.Error("the journal does not say that commands have begun")
	}
}

func TestFiles(t *testing.T) {
	h, p := fakehost.New(t), newProgress(t)
	put(t, h, "/etc/old", "old")
	put(t, h, "/etc/log", "first\n")
	if err := os.Symlink(h.Root.Path("/etc/old"), h.Root.Path("/etc/link")); err != nil {
		t.Fatal(err)
	}
	data := `
write_files:
- {path: /etc/new/deep, content: "x", permissions: '4751'}
- {path: /etc/link, content: "through"}
- {path: /etc/log, content: "second\n", append: true}
`
	for range 2 {
		if err := apply(t, h, p, data); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(h.Root.Path("/etc/new/deep")); err != nil || info.Mode() != os.ModeSetuid|0o751 {
		t.Errorf("mode is %v: %v", info.Mode(), err)
	}
	if got := get(t, h, "/etc/old"); got != "through" {
		t.Errorf("behind the link is %q", got)
	}
	if got := get(t, h, "/etc/log"); got != "first\nsecond\n" {
		t.Errorf("appended twice gives %q", got)
	}
	if got, want := strings.Join(p.State().Files, " "), "/etc/new/deep /etc/.slipway-old /etc/.slipway-log"; !strings.HasPrefix(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

// TestAppendOnce: a try that is repeated appends nothing twice, whichever entries the one before
// it came to.
func TestAppendOnce(t *testing.T) {
	const a, b = "{path: /etc/log, content: A, append: true}", "{path: /etc/log, content: B, append: true}"
	for name, c := range map[string]struct {
		// entries in the order of the data, and those that an interrupted try came to.
		entries, first []string
		want           string
	}{
		"two entries":       {[]string{a, b}, []string{a}, "oldAB"},
		"two of one text":   {[]string{a, a}, []string{a}, "oldAA"},
		"a deferred one":    {[]string{"{path: /etc/log, content: B, append: true, defer: true}", a}, []string{a}, "oldAB"},
		"one by a link":     {[]string{a, "{path: /etc/link, content: B, append: true}"}, []string{a}, "oldAB"},
		"another between":   {[]string{a, "{path: /b, content: x, append: true}", b}, []string{a}, "oldAB"},
		"to a written file": {[]string{"{path: /etc/log, content: A}", a, b}, []string{"{path: /etc/log, content: A}", a}, "AAB"},
		"to be overwritten": {[]string{a, "{path: /etc/log, content: A}", b}, []string{a}, "AB"},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakehost.New(t)
			put(t, h, "/etc/log", "old")
			if err := os.Symlink(h.Root.Path("/etc/log"), h.Root.Path("/etc/link")); err != nil {
				t.Fatal(err)
			}
			for _, entries := range [][]string{c.first, c.entries, c.entries} {
				if err := apply(t, h, newProgress(t), "write_files: ["+strings.Join(entries, ", ")+"]\n"); err != nil {
					t.Fatal(err)
				}
			}
			if got := get(t, h, "/etc/log"); got != c.want {
				t.Errorf("the file is %q, want %q", got, c.want)
			}
		})
	}
}

func TestFileOfAnUnknownOwner(t *testing.T) {
	h := fakehost.New(t)
	err := apply(t, h, newProgress(t), "write_files: [{path: /a, owner: nobody-here}]\n")
	if err == nil || !strings.Contains(err.Error(), "defer: true") {
		t.Fatalf("error is %v", err)
	}
	if err := apply(t, h, newProgress(t), "users: [{name: capi}]\nwrite_files: [{path: /a, owner: 'capi:root', defer: true}, {path: /b, owner: '0:0'}]\n"); err != nil {
		t.Fatal(err)
	}
}

func TestUsers(t *testing.T) {
	h, p := fakehost.New(t), newProgress(t)
	data := `
users:
- name: capi
  gecos: Cluster API
  groups: [wheel, root]
  primary_group: staff
  passwd: $6$secret
  shell: /bin/bash
  homedir: /home/capi
  inactive: true
  sudo: ALL=(ALL) NOPASSWD:ALL
  ssh_authorized_keys: [ssh-ed25519 AAAA a, ssh-ed25519 BBBB b]
- name: root
  lock_passwd: false
  sudo: false
`
	for range 2 {
		if err := apply(t, h, p, data); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"groupadd staff", "groupadd wheel",
		"useradd --comment Cluster API --home-dir /home/capi --gid staff --groups wheel,root --shell /bin/bash --inactive 0 --create-home capi",
		"chpasswd -e <<< capi:$6$secret", "usermod --lock capi",
		"chpasswd -e <<< capi:$6$secret", "usermod --lock capi",
	}
	if got := strings.Join(h.Programs.Ran(), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("ran\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if got := get(t, h, "/etc/sudoers.d/90-slipway-users"); got != "capi ALL=(ALL) NOPASSWD:ALL\n" {
		t.Errorf("sudoers is %q", got)
	}
	if got := get(t, h, "/home/capi/.ssh/authorized_keys"); got != "ssh-ed25519 AAAA a\nssh-ed25519 BBBB b\n" {
		t.Errorf("authorized_keys is %q", got)
	}
	if s := p.State(); strings.Join(s.Users, " ") != "capi" {
		t.Errorf("recorded users %v", s.Users)
	}
}

func TestTimeClients(t *testing.T) {
	for name, c := range map[string]struct {
		have          []string
		missing       []string
		file, content string
		restart       string
	}{
		"chrony of Debian": {[]string{"/etc/chrony/sources.d/x"}, nil, "/etc/chrony/sources.d/slipway.sources", "server a iburst\npool b iburst\n", "systemctl restart chrony"},
		"chrony of Fedora": {[]string{"/etc/chrony.conf"}, nil, "/etc/chrony.conf", "# slipway-agent: begin\nserver a iburst\npool b iburst\n# slipway-agent: end\n", "systemctl restart chronyd"},
		"timesyncd": {[]string{"/usr/lib/systemd/systemd-timesyncd"}, []string{"chronyd"}, "/etc/systemd/timesyncd.conf.d/slipway.conf",
			"[Time]\nNTP=a b\n", "systemctl restart systemd-timesyncd"},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakehost.New(t)
			h.Programs.Missing = c.missing
			for _, path := range c.have {
				put(t, h, path, "")
			}
			for range 2 {
				if err := apply(t, h, newProgress(t), "ntp: {enabled: true, servers: [a], pools: [b]}\n"); err != nil {
					t.Fatal(err)
				}
			}
			if got := get(t, h, c.file); got != c.content {
				t.Errorf("%s is %q, want %q", c.file, got, c.content)
			}
			if h.Programs.RanPrefix(c.restart) == 0 {
				t.Errorf("ran %q", h.Programs.Ran())
			}
		})
	}
	h := fakehost.New(t)
	put(t, h, "/etc/chrony.conf", "driftfile /var/lib/chrony/drift") // without an end of line
	for range 2 {
		if err := apply(t, h, newProgress(t), "ntp: {enabled: true, servers: [a]}\n"); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := get(t, h, "/etc/chrony.conf"), "driftfile /var/lib/chrony/drift\n# slipway-agent: begin\nserver a iburst\n# slipway-agent: end\n"; got != want {
		t.Errorf("chrony.conf is %q, want %q", got, want)
	}
	h = fakehost.New(t)
	h.Programs.Missing = []string{"chronyd"}
	assertFailure(t, apply(t, h, newProgress(t), "ntp: {servers: [a]}\n"), operation.ReasonNTPClientMissing, operation.RetryNever, "install one")
}

func assertFailure(t *testing.T, err error, reason string, retry operation.Retry, part string) {
	t.Helper()
	var e *operation.Error
	if !errors.As(err, &e) || e.Reason != reason || e.Retry != retry || !strings.Contains(e.Message, part) {
		t.Fatalf("error is %+v, want %s with %q", err, reason, part)
	}
}

func TestFailedCommandIsNamedWithoutItsOutput(t *testing.T) {
	h := fakehost.New(t)
	err := apply(t, h, newProgress(t), "runcmd: ['true', 'echo top-secret; exit 4', 'true']\n")
	assertFailure(t, err, operation.ReasonCommandFailed, operation.RetryAfterReset, "runcmd 2 of 3 ended with exit code 4")
	if strings.Contains(err.Error(), "top-secret") || !strings.Contains(get(t, h, bootstrap.LogFile), "top-secret") {
		t.Errorf("message %q, log %q", err, get(t, h, bootstrap.LogFile))
	}
}

// What kubeadm says of a host is told: it is what an operator has to mend. The output is
// what kubeadm v1.36 writes.
func TestFailedKubeadmSaysWhy(t *testing.T) {
	const output = `[preflight] Running pre-flight checks
	[WARNING HTTPProxy]: Connection to "https://10.0.0.1" uses proxy "http://user:top-secret@proxy"
[preflight] Some fatal errors occurred:
	[ERROR Swap]: running with swap on is not supported. Please disable swap
	[ERROR FileContent--proc-sys-net-ipv4-ip_forward]: /proc/sys/net/ipv4/ip_forward contents are not set to 1
	[ERROR ImagePull]: failed to pull image https://user:top-secret@registry/pause with abcdef.0123456789abcdef
[preflight] If you know what you are doing, you can make a check non-fatal
error: error execution phase preflight: preflight checks failed
top-secret
`
	const said = "[ERROR Swap]: running with swap on is not supported. Please disable swap; " +
		"[ERROR FileContent--proc-sys-net-ipv4-ip_forward]: /proc/sys/net/ipv4/ip_forward contents are not set to 1; " +
		"[ERROR ImagePull]: failed to pull image https://***registry/pause with ***; its output is in "
	phase := "error execution phase preflight: couldn't validate the identity of the API Server: invalid discovery token CA certificate hash"
	many := ""
	for i := range 9 {
		many += fmt.Sprintf("\t[ERROR Port-%d]: Port %d is in use %s\n", i, i, strings.Repeat("é", 400))
	}
	for _, c := range []struct{ name, before, command, output, want string }{
		{"failed checks", "", "kubeadm init", output, "runcmd 2 of 3 ended with exit code 1: " + said},
		{"a failed phase", "", "kubeadm join", phase + "\n", "exit code 1: " + phase + "; its output"},
		{"those of the command that failed only", "\t[ERROR Swap]: of an earlier try\n", "kubeadm init", "", "ended with exit code 1; its output"},
		{"no line of other programs", "", "other init", output, "ended with exit code 1; its output"},
		{"no more than fits a condition", "", "kubeadm init", many, "and 3 more; its output"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := fakehost.New(t)
			put(t, h, "/tmp/before", c.before)
			put(t, h, "/tmp/output", c.output)
			err := apply(t, h, newProgress(t), "runcmd: ['cat ROOT/tmp/before', 'cat ROOT/tmp/output # "+c.command+"\n\n  false', 'true']\n")
			assertFailure(t, err, operation.ReasonCommandFailed, operation.RetryAfterReset, c.want)
			if len(err.Error()) > 1800 || strings.Contains(err.Error(), "top-secret") || strings.Contains(err.Error(), "abcdef.") {
				t.Errorf("%d bytes: %s", len(err.Error()), err)
			}
		})
	}
}

// What kubeadm v1.36 says when it is the cluster that does not accept the node now, and what sounds alike and
// is wrong with host or data.
func TestRefusalOfTheCluster(t *testing.T) {
	const get = `Get "https://10.0.0.9:6443/api/v1/namespaces/kube-public/configmaps/cluster-info?timeout=10s": `
	const discovery = "error execution phase preflight: couldn't validate the identity of the API Server: "
	long := strings.Repeat("x", 400)
	for name, c := range map[string]struct {
		said, reason string
		tries        int
		part         string
	}{
		"a Node of an earlier try": {
			`error: error execution phase kubelet-start: a Node with name "host-2" and status "Ready" already exists in the cluster. You must delete the existing Node or change the name of this new joining Node`,
			operation.ReasonNodeExists, 20, "rename one of the two",
		},
		"a token that is not signed": {
			discovery + `could not find a JWS signature in the cluster-info ConfigMap for token ID "abcdef"`, operation.ReasonBootstrapTokenUnknown, 20, "bootstrap token",
		},
		"nobody listens":        {discovery + "failed to request the cluster-info ConfigMap: " + get + "dial tcp 10.0.0.9:6443: connect: connection refused", operation.ReasonClusterUnreachable, 0, "does not answer"},
		"cut off":               {discovery + "failed to request the cluster-info ConfigMap: " + get + "dial tcp 10.0.0.9:6443: connect: no route to host", operation.ReasonClusterUnreachable, 0, ""},
		"stopped":               {discovery + "failed to request the cluster-info ConfigMap: " + get + "EOF", operation.ReasonClusterUnreachable, 0, ""},
		"behind what is quoted": {discovery + long + ": context deadline exceeded", operation.ReasonClusterUnreachable, 0, ""},
		"its configuration": {
			"error execution phase preflight: unable to fetch the kubeadm-config ConfigMap: failed to get config map: the server is currently unable to handle the request (get configmaps kubeadm-config)",
			operation.ReasonClusterUnreachable, 0, "",
		},
		"its Nodes":          {`error execution phase kubelet-start: cannot get Node "host-2": etcdserver: leader changed`, operation.ReasonClusterUnreachable, 0, ""},
		"its etcd":           {"error execution phase check-etcd: etcd cluster is not healthy: failed to dial endpoint https://10.0.0.2:2379 with maintenance client: context deadline exceeded", operation.ReasonClusterUnreachable, 0, ""},
		"the first of two":   {"error execution phase check-etcd: context deadline exceeded\n[ERROR Swap]: running with swap on is not supported", operation.ReasonClusterUnreachable, 0, "[ERROR Swap]"},
		"another authority":  {discovery + get + "tls: failed to verify certificate: x509: certificate signed by unknown authority", operation.ReasonCommandFailed, 0, ""},
		"another key":        {discovery + "cluster CA found in cluster-info ConfigMap is invalid: none of the public keys \"sha256:0\" are pinned", operation.ReasonCommandFailed, 0, ""},
		"a name without one": {discovery + get + "dial tcp: lookup api.example.com on 10.0.0.1:53: no such host", operation.ReasonCommandFailed, 0, ""},
		"no right":           {`error execution phase kubelet-start: cannot get Node "host-2": nodes "host-2" is forbidden`, operation.ReasonCommandFailed, 0, ""},
		"its own kubelet": {
			`error execution phase kubelet-start: failed while waiting for the kubelet to start: The kubelet is not healthy after 4m0s: Get "http://127.0.0.1:10248/healthz": dial tcp 127.0.0.1:10248: connect: connection refused`,
			operation.ReasonCommandFailed, 0, "",
		},
		"its own API server": {`error execution phase wait-control-plane: kube-apiserver check failed at https://10.0.0.3:6443/livez: dial tcp 10.0.0.3:6443: connect: connection refused`, operation.ReasonCommandFailed, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakehost.New(t)
			put(t, h, "/tmp/output", "\t"+c.said+"\n")
			err := apply(t, h, newProgress(t), "runcmd: ['cat ROOT/tmp/output # kubeadm join\n\n  false']\n")
			retry := operation.RetryWhenAccepted
			if c.reason == operation.ReasonCommandFailed {
				retry = operation.RetryAfterReset
			}
			assertFailure(t, err, c.reason, retry, c.part)
			if tries := operation.AsError(err).Tries; tries != c.tries {
				t.Errorf("%d tries, want %d", tries, c.tries)
			}
		})
	}
}

func TestSentinel(t *testing.T) {
	h := fakehost.New(t)
	put(t, h, bootstrap.Sentinel, "of an earlier try")
	assertFailure(t, apply(t, h, newProgress(t), "runcmd: ['true # "+bootstrap.Sentinel+"']\n"), operation.ReasonCommandFailed, operation.RetryAfterReset, "missing")
	if err := apply(t, h, newProgress(t), "runcmd: ['echo success > ROOT"+bootstrap.Sentinel+"']\n"); err != nil {
		t.Fatal(err)
	}
	if err := apply(t, h, newProgress(t), "runcmd: ['true']\n"); err != nil {
		t.Fatal(err)
	}
}

func TestHostname(t *testing.T) {
	for data, want := range map[string]string{
		"hostname: a\nfqdn: b.example.com\n":     "a",
		"fqdn: b.example.com\n":                  "b",
		"hostname: a\npreserve_hostname: true\n": "",
		"runcmd: []\n":                           "",
	} {
		h := fakehost.New(t)
		if err := apply(t, h, newProgress(t), data); err != nil {
			t.Fatal(err)
		}
		got, _ := os.ReadFile(h.Root.Path("/run/hostname"))
		if string(got) != want {
			t.Errorf("%q sets the name %q, want %q", data, got, want)
		}
	}
}
