package kube

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/slipway-dev/slipway/plane/internal/component"
	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
	"github.com/slipway-dev/slipway/sdk/listener"
)

// ServerOptions configure a Server. All fields but Listener, Doors, Advertise, NoAuditLog
// and ExtraArgs are required.
type ServerOptions struct {
	// Dir holds the files that configure the server, and the audit log. It is made
	// with mode 0700.
	Dir string

	// NoAuditLog turns the audit log off.
	NoAuditLog bool

	// EncryptionConfigFile is an EncryptionConfiguration, which is there before Start.
	EncryptionConfigFile string

	// EtcdEndpoint is the URL of etcd.
	EtcdEndpoint string

	// Bind is the address to listen on, host:port. It is ignored when Listener
	// is set.
	Bind string

	// Listener is used instead of Bind; the server closes it.
	Listener net.Listener

	// Doors are further sockets by which the server is reached, whatever namespace they are
	// in; the server closes them. Default none.
	Doors []network.Door

	// Advertise is the IP address at which others reach the server. Default
	// the host of Bind or of Listener.
	Advertise net.IP

	// ServingCertFile and ServingKeyFile are watched and reloaded.
	ServingCertFile, ServingKeyFile string

	// ClientCAFile verifies client certificates. It is watched and reloaded.
	ClientCAFile string

	// ServiceAccountKeyFile signs and verifies service-account tokens.
	ServiceAccountKeyFile string

	// Probe is a client configuration allowed to read /readyz.
	Probe *rest.Config

	// Converted tells of a kind of custom resource whether its version is served
	// but not stored. The server keeps no watch cache of it.
	Converted func(schema.GroupVersionKind) bool

	// ExtraArgs are further kube-apiserver flags, which win over the plane's.
	ExtraArgs []string
}

// Server is the kube-apiserver component.
type Server struct {
	component.Task
	opts  ServerOptions
	probe *http.Client
}

// NewServer returns a Server that has not been started.
func NewServer(opts ServerOptions) *Server { return &Server{opts: opts} }

// consistencyCheckPeriod is how often the watch caches are compared with etcd, which
// reads every object. Upstream's five minutes cost a plane of thousands of hosts more
// than all else it does at rest.
const consistencyCheckPeriod = time.Hour

// Component is the server as a part of the plane. It does not wait for RBAC's default roles.
func (s *Server) Component() component.Component {
	return component.Component{Name: statedir.APIServer, Init: s.Init, Start: s.Start, Ready: s.Ready, Run: s}
}

// Roles is a component that is ready when the server has written RBAC's default roles, and with that
// passes all checks of its /readyz. It runs nothing; it lets what needs no roles go on in the
// meantime.
func (s *Server) Roles() component.Component {
	return component.Component{Name: "default-roles", Ready: func(ctx context.Context) error { return s.readyz(ctx, "/readyz") }}
}

// Init writes the configuration files and tells early when the port is taken.
func (s *Server) Init(ctx context.Context) error {
	if err := s.writeFiles(); err != nil {
		return err
	}
	if s.opts.Listener == nil {
		l, err := s.listen(ctx)
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return fmt.Errorf("give %s back: %w", s.opts.Bind, err)
		}
	}
	client, err := rest.HTTPClientFor(s.opts.Probe)
	if err != nil {
		return fmt.Errorf("client for /readyz: %w", err)
	}
	s.probe = client
	return nil
}

func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.opts.Bind)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s, the address of the API server: %w: stop what uses it, or choose another port", s.opts.Bind, err)
	}
	return l, nil
}

// open opens the address of the server, if nobody did before, and what is beside it.
func (s *Server) open(ctx context.Context) (err error) {
	if s.opts.Listener == nil {
		if s.opts.Listener, err = s.listen(ctx); err != nil {
			return err
		}
	}
	s.opts.Listener = handshakes{network.Gather(ctx, listener.New(s.opts.Listener, network.Local), s.opts.Doors...)}
	return nil
}

// Start completes the options of the server and runs it.
func (s *Server) Start(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	cacher.ConsistencyCheckPeriod = consistencyCheckPeriod
	// Completing options starts watchers; they live as long as the server.
	watchers, cancel := context.WithCancel(context.WithoutCancel(ctx))
	completed, err := s.complete(watchers)
	if err != nil {
		cancel()
		return errors.Join(err, s.opts.Listener.Close())
	}
	s.Go(func(ctx context.Context) error {
		defer cancel()
		if err := s.run(ctx, completed); err != nil {
			return fmt.Errorf("kube-apiserver: %w", err)
		}
		return nil
	})
	return nil
}

// run does what upstream's app.Run does, with watch caches of stored versions only, with an index of
// OpenAPI documents that can be read while a CRD is published, and with connections of identified clients.
func (s *Server) run(ctx context.Context, opts options.CompletedOptions) error {
	config, err := app.NewConfig(opts)
	if err != nil {
		return err
	}
	identifyClients(config.Aggregator)
	extra := &config.ApiExtensions.ExtraConfig
	extra.CRDRESTOptionsGetter = storedVersions{extra.CRDRESTOptionsGetter, s.opts.Converted}
	completed, err := config.Complete()
	if err != nil {
		return err
	}
	server, err := app.CreateServerChain(completed)
	if err != nil {
		return err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return err
	}
	if err := replaceOpenAPIIndex(server); err != nil {
		return err
	}
	return prepared.Run(ctx)
}

// complete does what upstream's command does between its flags and app.Run.
func (s *Server) complete(ctx context.Context) (options.CompletedOptions, error) {
	run := options.NewServerRunOptions()
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range run.Flags().FlagSets {
		fs.AddFlagSet(set)
	}
	var none options.CompletedOptions
	args, err := s.args()
	if err != nil {
		return none, err
	}
	if err := fs.Parse(args); err != nil {
		return none, fmt.Errorf("flags of kube-apiserver: %w", err)
	}
	if err := run.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return none, fmt.Errorf("feature gates of kube-apiserver: %w", err)
	}
	run.SecureServing.Listener = s.opts.Listener
	completed, err := run.Complete(ctx)
	if err != nil {
		return none, fmt.Errorf("options of kube-apiserver: %w", err)
	}
	if errs := completed.Validate(); len(errs) != 0 {
		return none, fmt.Errorf("options of kube-apiserver: %w", utilerrors.NewAggregate(errs))
	}
	return completed, nil
}

// Addr is the address the server listens on. It is valid after Start.
func (s *Server) Addr() net.Addr { return s.opts.Listener.Addr() }

// slowHook writes the default RBAC roles; it always takes a second or more, in
// which an administrator can use the server already.
const slowHook = "poststarthook/rbac/bootstrap-roles"

// Ready asks the server's own /readyz. It does not wait for RBAC's default
// roles; see Roles.
func (s *Server) Ready(ctx context.Context) error {
	return s.readyz(ctx, "/readyz?exclude="+slowHook)
}

func (s *Server) readyz(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.opts.Probe.Host+path, nil)
	if err != nil {
		return err
	}
	resp, err := s.probe.Do(req)
	if err != nil {
		return errors.New("waiting for the API server to answer")
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("waiting for the API server's %s", failedChecks(resp.Body))
	}
	return nil
}

// failedChecks reads the answer of /readyz, where a line "[-]<check> failed:
// reason withheld" stands for what is missing.
func failedChecks(body io.Reader) string {
	var failed []string
	for sc := bufio.NewScanner(body); sc.Scan(); {
		if check, ok := strings.CutPrefix(sc.Text(), "[-]"); ok {
			name, _, _ := strings.Cut(check, " ")
			failed = append(failed, name)
		}
	}
	if len(failed) == 0 {
		return "checks"
	}
	return strings.Join(failed, ", ")
}

// Stop implements component.Running.
func (s *Server) Stop(ctx context.Context) error {
	if s.probe != nil {
		s.probe.CloseIdleConnections()
	}
	return s.Task.Stop(ctx)
}

func (s *Server) args() ([]string, error) {
	host, port, err := net.SplitHostPort(s.opts.Listener.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	if _, err := strconv.Atoi(port); err != nil {
		return nil, fmt.Errorf("port of the API server: %w", err)
	}
	advertise := host
	if s.opts.Advertise != nil {
		advertise = s.opts.Advertise.String()
	}
	args := []string{
		"--etcd-servers=" + s.opts.EtcdEndpoint,
		"--bind-address=" + host,
		"--secure-port=" + port,
		"--advertise-address=" + advertise,
		"--tls-cert-file=" + s.opts.ServingCertFile,
		"--tls-private-key-file=" + s.opts.ServingKeyFile,
		"--client-ca-file=" + s.opts.ClientCAFile,
		"--service-account-key-file=" + s.opts.ServiceAccountKeyFile,
		"--service-account-signing-key-file=" + s.opts.ServiceAccountKeyFile,
		"--authentication-config=" + s.file("authentication.yaml"),
		"--encryption-provider-config=" + s.opts.EncryptionConfigFile,
		"--disable-admission-plugins=" + strings.Join(disabledAdmission, ","),
		"--runtime-config=" + strings.Join(disabledAPIs, ","),
	}
	return slices.Concat(args, s.auditArgs(), fixedArgs, s.opts.ExtraArgs), nil
}
