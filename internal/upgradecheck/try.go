package upgradecheck

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	kubeadmtypes "sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types/upstream"

	"github.com/slipway-dev/slipway/internal/startup"
)

// timeout of a request to a workload cluster.
const timeout = 10 * time.Second

// Result of a try.
type Result string

// Results of tries.
const (
	Accepted Result = "Accepted"
	Refused  Result = "Refused"
	// NotTried tells nothing: a program or a part of the configuration is not there.
	NotTried Result = "NotTried"
)

// Check is what one program says of one object.
type Check struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Program   string `json:"program"`
	Result    Result `json:"result"`
	// Message says what is refused, or why it was not tried.
	Message string `json:"message,omitempty"`
}

// Trial tries objects with the programs of a version.
type Trial struct {
	// Version of the programs, with a leading v.
	Version string
	// Programs is the directory that they are in, as kubernetes/server/bin of a release of Kubernetes, or as in a node
	// bundle.
	Programs string
	// Kubelet is the KubeletConfiguration of the cluster; empty for kubeadm's.
	Kubelet []byte
}

// Try tries all that machines made from an object would start.
func (t Trial) Try(ctx context.Context, object Object) ([]Check, error) {
	work, err := os.MkdirTemp("", "slipway-upgrade-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	o := &tried{Trial: t, Object: object, work: work}
	if err := o.kubeadm(ctx); err != nil {
		return nil, err
	}
	registrations := []bootstrapv1.NodeRegistrationOptions{object.Spec.JoinConfiguration.NodeRegistration}
	if object.ControlPlane {
		if err := o.staticPods(ctx); err != nil {
			return nil, err
		}
		registrations = append(registrations, object.Spec.InitConfiguration.NodeRegistration)
	}
	return o.checks, o.kubelets(ctx, registrations)
}

// tried is one object on its way.
type tried struct {
	Trial
	Object
	work   string
	checks []Check
}

func (o *tried) say(program string, result Result, message string) {
	o.checks = append(o.checks, Check{o.Kind, o.Namespace, o.Name, program, result, message})
}

// kubeadm has kubeadm read its configuration as Cluster API writes it for the version. The feature gates of the
// cluster are left out: joins and upgrades pass over those that kubeadm has dropped.
func (o *tried) kubeadm(ctx context.Context) error {
	version, err := semver.ParseTolerant(o.Trial.Version)
	if err != nil {
		return fmt.Errorf("%q is no version of Kubernetes: %w", o.Trial.Version, err)
	}
	join := o.Spec.JoinConfiguration
	join.Discovery = bootstrapv1.Discovery{BootstrapToken: bootstrapv1.BootstrapTokenDiscovery{
		Token: "abcdef.0123456789abcdef", APIServerEndpoint: "127.0.0.1:6443", UnsafeSkipCAVerification: new(bool),
	}}
	*join.Discovery.BootstrapToken.UnsafeSkipCAVerification = true
	document, err := kubeadmtypes.MarshalJoinConfigurationForVersion(&join, version)
	if err != nil {
		return err
	}
	documents := []string{document}
	if o.ControlPlane {
		cluster, init := o.Spec.ClusterConfiguration, o.Spec.InitConfiguration
		cluster.FeatureGates = nil
		init.BootstrapTokens = nil
		first, err1 := kubeadmtypes.MarshalInitConfigurationForVersion(&init, version)
		second, err2 := kubeadmtypes.MarshalClusterConfigurationForVersion(&cluster, version, &upstream.AdditionalData{KubernetesVersion: &o.Trial.Version})
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		documents = append(documents, first+"---\n"+second)
	}
	for _, document := range documents {
		file := filepath.Join(o.work, "kubeadm.yaml")
		if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
			return err
		}
		out, failed, err := o.run(ctx, "kubeadm", nil, "config", "validate", "--config="+file)
		switch {
		case err != nil:
			o.say("kubeadm", NotTried, err.Error())
			return nil
		case failed:
			o.say("kubeadm", Refused, startup.LastError(out))
			return nil
		}
	}
	o.say("kubeadm", Accepted, "")
	return nil
}

// staticPods tries the programs of the control plane with the flags without which they do not start, and the
// extraArgs of the object.
func (o *tried) staticPods(ctx context.Context) error {
	key := filepath.Join(o.work, "sa.key")
	if err := writeKey(key); err != nil {
		return err
	}
	const nowhere = "/nonexistent"
	cluster := o.Spec.ClusterConfiguration
	authorization, ofServer, err := o.authorization(cluster.APIServer)
	if err != nil {
		return err
	}
	clients := []string{"--kubeconfig=" + nowhere, "--authentication-kubeconfig=" + nowhere, "--authorization-kubeconfig=" + nowhere}
	for _, pod := range []struct {
		program string
		flags   []string
		extra   []string
	}{
		{"kube-apiserver", []string{
			authorization,
			"--etcd-servers=https://127.0.0.1:2379", "--service-account-issuer=https://kubernetes.default.svc", "--client-ca-file=" + nowhere,
			"--tls-cert-file=" + nowhere, "--tls-private-key-file=" + nowhere, "--service-cluster-ip-range=10.96.0.0/12",
			"--service-account-key-file=" + key, "--service-account-signing-key-file=" + key,
		}, ofServer},
		{"kube-controller-manager", clients, arguments(cluster.ControllerManager.ExtraArgs)},
		{"kube-scheduler", clients, arguments(cluster.Scheduler.ExtraArgs)},
		{startup.Etcd, []string{"--data-dir=" + filepath.Join(o.work, "etcd")}, arguments(cluster.Etcd.Local.ExtraArgs)},
	} {
		if pod.program == startup.Etcd && len(cluster.Etcd.External.Endpoints) > 0 {
			continue
		}
		out, _, err := o.run(ctx, pod.program, nil, slices.Concat(pod.flags, pod.extra, []string{startup.Flag(pod.program)})...)
		if err != nil {
			o.say(pod.program, NotTried, err.Error())
			continue
		}
		o.judge(pod.program, startup.StaticPod(out))
	}
	return nil
}

// authorization is how the API server authorizes, and its other extraArgs. A configuration of that is the one file that
// is read while flags are validated; kubeadm sets no mode beside it.
func (o *tried) authorization(server bootstrapv1.APIServer) (flag string, others []string, _ error) {
	const config, modes = "--authorization-config=", "--authorization-mode=Node,RBAC"
	flag = modes
	for _, arg := range arguments(server.ExtraArgs) {
		path, found := strings.CutPrefix(arg, config)
		if !found {
			others = append(others, arg)
			continue
		}
		onHost := path
		for _, v := range server.ExtraVolumes {
			if below, err := filepath.Rel(v.MountPath, path); err == nil && filepath.IsLocal(below) {
				onHost = filepath.Join(v.HostPath, below)
			}
		}
		i := slices.IndexFunc(o.Spec.Files, func(f bootstrapv1.File) bool { return f.Path == onHost })
		if i < 0 || o.Spec.Files[i].ContentFrom.Secret.Name != "" {
			o.say("kube-apiserver", NotTried, onHost+" is not in the object")
			continue
		}
		content, err := decoded(o.Spec.Files[i])
		if err != nil {
			o.say("kube-apiserver", NotTried, fmt.Sprintf("%s: %v", onHost, err))
			continue
		}
		flag = config + filepath.Join(o.work, "authorization.yaml")
		if err := os.WriteFile(strings.TrimPrefix(flag, config), []byte(content), 0o600); err != nil {
			return "", nil, err
		}
	}
	return flag, others, nil
}

func (o *tried) judge(program string, said startup.Refusal) {
	switch {
	case !said.Tried:
		o.say(program, NotTried, said.Why)
	case said.Why != "":
		o.say(program, Refused, said.Why)
	default:
		o.say(program, Accepted, "")
	}
}

// kubelets tries the kubelet with each registration, of which the first that it refuses is told.
func (o *tried) kubelets(ctx context.Context, registrations []bootstrapv1.NodeRegistrationOptions) error {
	config, missing, err := o.kubeletConfiguration()
	if err != nil {
		o.say("kubelet", NotTried, err.Error())
		return nil
	}
	file := filepath.Join(o.work, "kubelet.yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return err
	}
	flags := []string{"--kubeconfig=" + filepath.Join(o.work, "kubelet.conf"), "--cert-dir=" + o.work, "--root-dir=" + filepath.Join(o.work, "kubelet"), "--config=" + file}
	var said startup.Refusal
	for _, r := range registrations {
		out, _, err := o.run(ctx, "kubelet", []string{startup.Watchdog}, append(slices.Clone(flags), arguments(r.KubeletExtraArgs)...)...)
		if err != nil {
			o.say("kubelet", NotTried, err.Error())
			return nil
		}
		if said = startup.Kubelet(out); said.Why != "" {
			break
		}
	}
	o.judge("kubelet", said)
	for _, file := range missing {
		o.say("kubelet", NotTried, file)
	}
	return nil
}

// run runs a program that is to fail, and returns all it says; an error when it cannot be run.
func (o *tried) run(ctx context.Context, program string, environment []string, args ...string) (out string, failed bool, _ error) {
	path := filepath.Join(o.Programs, program)
	if _, err := os.Stat(path); err != nil {
		all := filepath.Join(o.Programs, "hyperkube")
		if _, err := os.Stat(all); err != nil || program == startup.Etcd {
			return "", false, fmt.Errorf("there is no %s in %s", program, o.Programs)
		}
		path, args = all, append([]string{program}, args...)
	}
	ctx, cancel := context.WithTimeout(ctx, startup.Timeout)
	defer cancel()
	command := exec.CommandContext(ctx, path, args...)
	command.Dir, command.Env = o.work, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + o.work}, environment...)
	said, err := command.CombinedOutput()
	if ctx.Err() != nil {
		return "", false, fmt.Errorf("%s of %s does not end: %w", program, o.Trial.Version, ctx.Err())
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return "", false, err
	}
	return string(said), err != nil, nil
}

func arguments(args []bootstrapv1.Arg) []string {
	var all []string
	for _, arg := range args {
		flag := "--" + arg.Name
		if arg.Value != nil {
			flag += "=" + *arg.Value
		}
		all = append(all, flag)
	}
	return all
}

func writeKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}), 0o600)
}

// isPatch says whether a file of a machine is a patch of kubeadm's for the kubelet.
func isPatch(path string) bool {
	return strings.HasPrefix(filepath.Base(path), "kubeletconfiguration")
}
