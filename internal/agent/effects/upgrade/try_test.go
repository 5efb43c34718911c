package upgrade

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

// oneVersion has the programs of one version in a directory.
type oneVersion struct {
	Versions
	dir string
}

// Program implements Versions.
func (v oneVersion) Program(_ context.Context, _, program string) (string, error) {
	return filepath.Join(v.dir, program), nil
}

// trier runs programs of this machine, but for systemd and kubeadm, which need a node.
type trier struct {
	command.System
	render string
	// images has the programs of static pods.
	images string
}

// Run implements command.Runner.
func (r trier) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	switch {
	case name == "sh" && slices.Contains(args, "ctr"):
		// Without the container.
		program := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "slipway-try-") }) + 1
		return r.System.Run(ctx, name, slices.Concat(args[:3], []string{filepath.Join(r.images, args[program])}, args[program+1:])...)
	case name == "systemctl":
		return []byte("7\n"), nil
	case name == "env" && slices.Contains(args, "kubelet-config"):
		_, dir, _ := strings.Cut(args[0], "=")
		return nil, os.WriteFile(filepath.Join(dir, kubeletConfig), []byte(r.render), 0o600)
	}
	return r.System.Run(ctx, name, args...)
}

const rendered = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailCgroupV1: false\nfailSwapOn: false\ncgroupDriver: cgroupfs\n"

// The real kubelet of each version that is built tells what it would refuse, and nothing of it is left.
func TestKubeletTriesItsConfiguration(t *testing.T) {
	found, _ := filepath.Glob(filepath.Join(os.Getenv("SLIPWAY_BIN"), "bundle", "kubernetes", "v*", "kubelet"))
	if os.Getenv("SLIPWAY_BIN") == "" || len(found) == 0 {
		rights.Skip(t, "needs a kubelet; run `make bundle`, and set SLIPWAY_BIN to the folder of programs")
	}
	for _, kubelet := range found {
		version := filepath.Base(filepath.Dir(kubelet))
		t.Run(version, func(t *testing.T) { kubeletTells(t, filepath.Dir(kubelet), version) })
	}
}

func kubeletTells(t *testing.T, programs, version string) {
	for name, c := range map[string]struct {
		flags  string
		render string
		want   string
	}{
		"accepted":          {"", "", ""},
		"flag that went":    {"--gone=1", "", "failed to parse kubelet flag: unknown flag: --gone"},
		"gate that went":    {"--feature-gates=Gone=true", "", "unrecognized feature gate: Gone"},
		"gate in the file":  {"", "featureGates: {Gone: true}\n", "unrecognized feature gate: Gone"},
		"field in the file": {"", "maxPods: -3\n", "maxPods (--max-pods) -3 must not be a negative number"},
		"no such key":       {"", "maxPots: 3\nevictionHard: [a]\n", "cannot unmarshal array into Go struct field"},
		"an argument":       {"run", "", "unknown command run"},
		"log of JSON":       {"--logging-format=json --node-status-max-images=-5", "", "nodeStatusMaxImages (--node-status-max-images) -5 must be -1 or greater"},
		"the file of today": {"--config=/var/lib/kubelet/gone.yaml", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := hostfs.Root(t.TempDir())
			args := slices.Concat([]string{"/usr/local/bin/kubelet", "--config=/var/lib/kubelet/config.yaml", "--kubeconfig=/gone/kubelet.conf",
				"--cert-dir=" + t.TempDir(), "--root-dir=" + filepath.Join(t.TempDir(), "state")}, strings.Fields(c.flags))
			for path, content := range map[string]string{"/proc/7/cmdline": strings.Join(args, "\x00") + "\x00", "/var/lib/kubelet/config.yaml": rendered} {
				if err := errors.Join(os.MkdirAll(filepath.Dir(root.Path(path)), 0o755), os.WriteFile(root.Path(path), []byte(content), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			u := Upgrader{Root: root, Versions: oneVersion{dir: programs}, Runner: trier{render: rendered + c.render}}
			err := u.tryKubelet(t.Context(), version)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || operation.AsError(err).Reason != operation.ReasonConfigurationRefused) {
				t.Errorf("it says %v, want %q", err, c.want)
			}
			if left, err := os.ReadDir(root.Path(ours)); err != nil || len(left) > 0 {
				t.Errorf("left are %v, %v", left, err)
			}
			if _, err := os.Stat(strings.TrimPrefix(args[4], "--root-dir=")); err == nil {
				t.Error("the kubelet began to run")
			}
		})
	}
}

// The real programs of a control plane of each version that is built tell what they would refuse.
func TestStaticPodsTryTheirFlags(t *testing.T) {
	found, _ := filepath.Glob(filepath.Join(os.Getenv("SLIPWAY_BIN"), "bundle", "kubernetes", "v*", "hyperkube"))
	if os.Getenv("SLIPWAY_BIN") == "" || len(found) == 0 {
		rights.Skip(t, "needs the programs of a control plane; run `make bundle`, and set SLIPWAY_BIN to the folder of programs")
	}
	for _, program := range found {
		programs := filepath.Dir(program)
		t.Run(filepath.Base(programs), func(t *testing.T) { staticPodsTell(t, programs) })
	}
}

func staticPodsTell(t *testing.T, programs string) {
	images, kubernetes := t.TempDir(), filepath.Join(programs, "hyperkube")
	for program, target := range map[string]string{"kube-apiserver": kubernetes, "kube-controller-manager": kubernetes, "kube-scheduler": kubernetes, etcd: filepath.Join(programs, etcd)} {
		if err := os.Symlink(target, filepath.Join(images, program)); err != nil {
			t.Fatal(err)
		}
	}
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	files := t.TempDir()
	keyFile := filepath.Join(files, "sa.key")
	cert, certKey, err := certutil.GenerateSelfSignedCertKey("a", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const config = "apiVersion: apiserver.config.k8s.io/v1\nkind: "
	for name, content := range map[string]string{
		"sa.key": string(key), "a.crt": string(cert), "a.key": string(certKey),
		"audit":   "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n",
		"audit-x": "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Gone}]\n",
		"crypt":   config + "EncryptionConfiguration\nresources: [{resources: [secrets], providers: [{aescbc: {keys: [{name: a, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}]}}, {identity: {}}]}]\n",
		"crypt-x": config + "EncryptionConfiguration\nresources: [{resources: [secrets], providers: [{gone: {}}]}]\n",
		"authn-x": "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\njwt: [{issuer: {url: 'http://gone'}}]\n",
		"authz-x": config + "AuthorizationConfiguration\nauthorizers: [{type: Gone, name: a}]\n",
	} {
		if err := os.WriteFile(filepath.Join(files, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ program, flags, want string }{
		"accepted":             {"kube-apiserver", "", ""},
		"flag that went":       {"kube-apiserver", "--gone=1", "unknown flag: --gone"},
		"gate that went":       {"kube-apiserver", "--feature-gates=Gone=true", "unrecognized feature gate: Gone"},
		"plugin that went":     {"kube-apiserver", "--enable-admission-plugins=Gone", `enable-admission-plugins plugin "Gone" is unknown`},
		"two that went":        {"kube-apiserver", "--enable-admission-plugins=Gone --runtime-config=gone/v1=true", "unknown api groups gone"}, // "gone/v1" from 1.36 on
		"good files":           {"kube-apiserver", "--audit-policy-file=FILES/audit --encryption-provider-config=FILES/crypt --audit-log-path=FILES/log", ""},
		"rule of the audit":    {"kube-apiserver", "--audit-policy-file=FILES/audit-x", "loading audit policy file: rules[0].level: Unsupported value"},
		"no policy":            {"kube-apiserver", "--audit-policy-file=FILES/none", "loading audit policy file: failed to read file path"},
		"provider of keys":     {"kube-apiserver", "--encryption-provider-config=FILES/crypt-x", "error while parsing file: error decoding encryption provider configuration file"},
		"issuer of tokens":     {"kube-apiserver", "--authentication-config=FILES/authn-x", "invalid authentication config"},
		"authorizer":           {"kube-apiserver", "--authorization-config=FILES/authz-x", "authorizers[0].type: Unsupported value"},
		"controllers":          {"kube-controller-manager", "", ""},
		"gate of controllers":  {"kube-controller-manager", "--feature-gates=Gone=true", "unrecognized feature gate: Gone"},
		"controller that went": {"kube-controller-manager", "--controllers=gone", `"gone" is not in the list of known controllers`},
		"scheduler":            {"kube-scheduler", "", ""},
		"flag of the schedule": {"kube-scheduler", "--gone", "unknown flag: --gone"},
		"etcd":                 {etcd, "", ""},
		"flag of etcd":         {etcd, "--experimental-gone=1", "flag provided but not defined: -experimental-gone"},
		"value of etcd":        {etcd, "--initial-cluster-state=gone", `invalid value "gone" for flag -initial-cluster-state`},
	} {
		t.Run(name, func(t *testing.T) {
			flags := map[string]string{
				"kube-apiserver": "--etcd-servers=https://127.0.0.1:1 --service-account-issuer=https://a --service-account-key-file=" + keyFile + " --service-account-signing-key-file=" + keyFile +
					" --tls-cert-file=FILES/a.crt --tls-private-key-file=FILES/a.key --client-ca-file=FILES/a.crt --authorization-mode=Node,RBAC --etcd-cafile=FILES/a.crt --service-cluster-ip-range=10.96.0.0/12",
				"kube-controller-manager": "--kubeconfig=/gone --authentication-kubeconfig=/gone --authorization-kubeconfig=/gone --bind-address=127.0.0.1 --leader-elect=true",
				"kube-scheduler":          "--kubeconfig=/gone --authentication-kubeconfig=/gone --authorization-kubeconfig=/gone --bind-address=127.0.0.1 --leader-elect=true",
				etcd:                      "--data-dir=" + filepath.Join(t.TempDir(), "data"),
			}[c.program]
			flags = strings.ReplaceAll(flags, "FILES", files)
			if strings.Contains(c.flags, "--authorization-config=") { // as kubeadm does
				flags = strings.Replace(flags, "--authorization-mode=Node,RBAC", "", 1)
			}
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "image", Command: slices.Concat([]string{c.program}, strings.Fields(flags), strings.Fields(strings.ReplaceAll(c.flags, "FILES", files)))}}}}
			pod.Name = c.program
			u := &onControlPlane{version: "v1", Upgrader: Upgrader{Runner: trier{images: images}, Log: slog.New(slog.DiscardHandler)}}
			err := u.tryStaticPod(t.Context(), pod)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), "would not start: "+c.want) && !strings.Contains(err.Error(), ", "+c.want) || strings.Contains(err.Error(), "secure-port")) {
				t.Errorf("it says %v, want %q", err, c.want)
			}
			if data, found := strings.CutPrefix(flags, "--data-dir="); found {
				if _, err := os.Stat(data); err == nil {
					t.Error("etcd began to run")
				}
			}
		})
	}
}

// recorder keeps the command lines of containers.
type recorder struct {
	command.System
	lines []string
}

// Run implements command.Runner.
func (r *recorder) Run(_ context.Context, _ string, args ...string) ([]byte, error) {
	r.lines = append(r.lines, strings.Join(args, " "))
	return []byte("[--secure-port -1 must be between 1 and 65535, inclusive]"), nil
}

// A static pod that is tried finds the files of its host, also where it may write; only etcd does not find its data.
func TestStaticPodsFindTheirFiles(t *testing.T) {
	host := t.TempDir()
	volume := func(name, path string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}
	}
	for _, name := range []string{"kube-apiserver", etcd} {
		r := &recorder{}
		pod := &corev1.Pod{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Image: "image", VolumeMounts: []corev1.VolumeMount{{Name: "pki", MountPath: "/pki", ReadOnly: true}, {Name: "own", MountPath: "/own"}, {Name: "later", MountPath: "/later"}}}},
			Volumes:    []corev1.Volume{volume("pki", "/pki"), volume("own", host), volume("later", filepath.Join(host, "later"))},
		}}
		pod.Name = name
		u := &onControlPlane{version: "v1", Upgrader: Upgrader{Runner: r, Log: slog.New(slog.DiscardHandler)}}
		if err := u.tryStaticPod(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		line := strings.Join(r.lines, "\n")
		if !strings.Contains(line, "src=/pki,dst=/pki,options=rbind:ro") || strings.Contains(line, "dst=/own,options=rbind:ro") != (name != etcd) || strings.Contains(line, "/later") {
			t.Errorf("%s: %s", name, line)
		}
	}
}

func TestLongErrorsAreCut(t *testing.T) {
	if got := lastError(strings.Repeat("x", 4000)); len(got) > maxError {
		t.Errorf("%d bytes", len(got))
	}
}
