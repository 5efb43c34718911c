package judge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
)

// Options of a plane.
type Options struct {
	Kit *Kit
	// Dir takes logs, certificates and kubeconfigs.
	Dir      string
	Scheme   *runtime.Scheme
	Subjects []Subject
	// Audit writes down what the ServiceAccounts of the subjects ask for; see
	// Plane.Used.
	Audit bool
	// Controllers of Kubernetes besides those that every plane has; see the flag
	// --controllers of kube-controller-manager.
	Controllers []string
}

// Plane is a management cluster: an API server and the managers on it.
type Plane struct {
	// Config and Client are those of an administrator.
	Config *rest.Config
	Client client.WithWatch

	options    Options
	server     *envtest.Environment
	stopServer func() error
	signer     *clientCA
	certDir    string
	ca         []byte
	processes  []*process
}

// StartServer starts an API server with nothing on it but some CRDs, as workload
// cluster or for Run.
func StartServer(scheme *runtime.Scheme, crdDirectories ...string) (*Plane, error) {
	return startServer(Options{Scheme: scheme}, crdDirectories...)
}

func startServer(o Options, crdDirectories ...string) (*Plane, error) {
	p := &Plane{options: o, signer: &clientCA{}}
	p.server = &envtest.Environment{CRDDirectoryPaths: crdDirectories, ErrorIfCRDPathMissing: true}
	p.server.ControlPlane.GetAPIServer().Authn = p.signer
	p.server.ControlPlane.GetAPIServer().Configure().Set("enable-bootstrap-token-auth", "true")
	if o.Audit {
		if err := audit(p.server, o.Dir); err != nil {
			return nil, err
		}
	}
	var err error
	// what Kubernetes itself has in each cluster, such as its roles, is there from the beginning
	if p.Config, p.stopServer, err = testenv.StartServerWith(p.server, nil); err != nil {
		return nil, err
	}
	p.Config.QPS = -1
	if p.Client, err = client.NewWithWatch(p.Config, client.Options{Scheme: o.Scheme}); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// Start starts everything and returns when all managers are ready.
func Start(ctx context.Context, o Options) (*Plane, error) {
	p, err := startServer(o)
	if err != nil {
		return nil, err
	}
	if err := p.Run(ctx, o); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// Run installs the subjects and starts their managers, and returns when all are
// ready. Objects that somebody installed already are kept; only their webhooks are
// pointed at the managers.
func (p *Plane) Run(ctx context.Context, o Options) error {
	p.options = o
	for _, step := range []func(context.Context) error{p.makeCertificate, p.startControllerManager, p.startManagers} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stop stops what runs, the managers first.
func (p *Plane) Stop() error {
	var group errgroup.Group
	for _, process := range p.processes {
		group.Go(func() error { process.stop(); return nil })
	}
	return errors.Join(group.Wait(), p.stopServer())
}

// Failures tells which managers ended by themselves.
func (p *Plane) Failures() error {
	var errs []error
	for _, process := range p.processes {
		errs = append(errs, process.failure())
	}
	return errors.Join(errs...)
}

// Logged returns the lines with a word in the logs of all managers.
func (p *Plane) Logged(word string) []string {
	var lines []string
	for _, process := range p.processes {
		lines = append(lines, process.lines(word)...)
	}
	return lines
}

// LastLogged returns the last lines with a word in the log of each manager, cut to a
// length that leaves the failure itself readable.
func (p *Plane) LastLogged(word string) []string {
	const last, length = 8, 400
	var lines []string
	for _, process := range p.processes {
		found := process.lines(word)
		for _, line := range found[max(0, len(found)-last):] {
			lines = append(lines, line[:min(length, len(line))])
		}
	}
	return lines
}

func (p *Plane) makeCertificate(context.Context) error {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return err
	}
	p.certDir, p.ca = filepath.Join(p.options.Dir, "webhooks"), certificate
	if err := os.MkdirAll(p.certDir, 0o700); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(p.certDir, "tls.crt"), certificate, 0o600),
		os.WriteFile(filepath.Join(p.certDir, "tls.key"), key, 0o600),
	)
}

// controllers of Kubernetes that every plane has.
var controllers = []string{"clusterrole-aggregation-controller", "garbage-collector-controller", "certificatesigningrequest-signing-controller"}

func (p *Plane) startControllerManager(ctx context.Context) error {
	const name = "kube-controller-manager"
	kubeconfig, err := p.writeKubeconfig(name, p.Config)
	if err != nil {
		return err
	}
	p.start(ctx, name, program{path: asset(name), args: []string{
		"--kubeconfig", kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--controllers=" + strings.Join(append(slices.Clone(controllers), p.options.Controllers...), ","),
		"--cluster-signing-cert-file", p.signer.certFile(), "--cluster-signing-key-file", p.signer.keyFile(),
	}})
	return nil
}

// startManagers installs the manifests of all managers, starts them, and waits for all. A manager
// whose informers met no CRD would try again up to half a minute later.
func (p *Plane) startManagers(ctx context.Context) error {
	webhooks := map[string]int{}
	for _, s := range p.options.Subjects {
		var err error
		if webhooks[s.Name], err = p.install(ctx, s); err != nil {
			return fmt.Errorf("install %s: %w", s.Name, err)
		}
	}
	var ready errgroup.Group
	for _, s := range p.options.Subjects {
		process, address, err := p.startManager(ctx, s, webhooks[s.Name])
		if err != nil {
			return fmt.Errorf("start %s: %w", s.Name, err)
		}
		ready.Go(func() error { return process.awaitReady(ctx, address) })
	}
	return ready.Wait()
}

// install installs a subject's manifests, and returns the port that its webhooks are to listen on.
func (p *Plane) install(ctx context.Context, s Subject) (int, error) {
	objects, err := p.options.Kit.manifests(ctx, s)
	if err != nil {
		return 0, err
	}
	free, err := shared.FreePorts(1)
	if err != nil {
		return 0, err
	}
	return free[0], Install(ctx, p.Client, objects, free[0], p.ca)
}

func (p *Plane) startManager(ctx context.Context, s Subject, webhooks int) (_ *process, health string, _ error) {
	path, err := p.options.Kit.Program(ctx, s.Package)
	if err != nil {
		return nil, "", err
	}
	free, err := shared.FreePorts(1)
	if err != nil {
		return nil, "", err
	}
	config, err := as(ctx, p.Client, p.Config, s.Namespace, s.ServiceAccount)
	if err != nil {
		return nil, "", err
	}
	kubeconfig, err := p.writeKubeconfig(s.Name, config)
	if err != nil {
		return nil, "", err
	}
	health = fmt.Sprintf("127.0.0.1:%d", free[0])
	return p.start(ctx, s.Name, program{
		path: path, environment: []string{"KUBECONFIG=" + kubeconfig},
		args: slices.Concat([]string{
			fmt.Sprintf("--webhook-port=%d", webhooks),
			fmt.Sprintf("--%s=%s", cmp.Or(s.CertDirFlag, "webhook-cert-dir"), p.certDir),
			"--health-addr=" + health,
		}, s.Flags),
	}), health, nil
}

// CA has signed the certificate of all managers, which is for 127.0.0.1.
func (p *Plane) CA() []byte { return p.ca }

// As returns a configuration with the rights of a ServiceAccount, which it makes when
// there is none.
func (p *Plane) As(ctx context.Context, namespace, name string) (*rest.Config, error) {
	return as(ctx, p.Client, p.Config, namespace, name)
}

func (p *Plane) start(ctx context.Context, name string, program program) *process {
	process := run(ctx, name, filepath.Join(p.options.Dir, name+".log"), program)
	p.processes = append(p.processes, process)
	return process
}

func (p *Plane) writeKubeconfig(name string, config *rest.Config) (string, error) {
	data, err := Kubeconfig(config)
	if err != nil {
		return "", err
	}
	path := filepath.Join(p.options.Dir, name+".kubeconfig")
	return path, os.WriteFile(path, data, 0o600)
}
