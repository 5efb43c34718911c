package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"strconv"
	"sync"

	"github.com/spf13/cobra"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // for --logging-format=json
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/plane/internal/capi"
	"github.com/slipway-dev/slipway/plane/internal/component"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/pki"
	"github.com/slipway-dev/slipway/plane/internal/serve"
	"github.com/slipway-dev/slipway/plane/internal/service"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
	"github.com/slipway-dev/slipway/plane/internal/up"
)

// Names under which files are passed on into the namespace of the plane: the socket on the machine's 127.0.0.1,
// the lock of the command that starts it, and that of the state directory, if a supervisor has it.
const (
	apiListener = "api"
	commandLock = "command-lock"
	stateLock   = "state-lock"
)

func serveCommand(g *global) *cobra.Command {
	f := &instanceFlags{}
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run the plane in the foreground: what `slipway up` starts",
		Long: `Run etcd, kube-apiserver, Cluster API and the slipway provider in the foreground, until
interrupted. "slipway up" runs it in the background, "slipway install" under systemd;
this is for other service managers.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files, err := network.Inherited()
			if err != nil {
				return err
			}
			if files == nil {
				return enterNetwork(cmd.Context(), g, f)
			}
			return servePlane(cmd.Context(), g, files)
		},
	}
	f.bind(command)
	return command
}

// enterNetwork opens the socket on the machine's loopback, then goes on as the same
// command inside the network namespace of the plane.
func enterNetwork(ctx context.Context, g *global, f *instanceFlags) error {
	supervised, err := supervisorsLock()
	if err != nil {
		return err
	}
	acquire := f.acquire
	if _, ok := os.LookupEnv(service.Env); ok {
		acquire = acquireChosen
	}
	if supervised != nil {
		acquire = acquireSupervised
	}
	inst, lock, err := acquire(ctx, g)
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := inst.Network().Ensure(ctx); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(inst.APIPort)))
	if err != nil {
		return &up.PortBusyError{Port: inst.APIPort, Err: err}
	}
	files := map[string]*os.File{}
	if held := lock.File(); held != nil {
		files[commandLock] = held
	}
	if supervised != nil {
		files[stateLock] = supervised
	}
	if files[apiListener], err = listener.(*net.TCPListener).File(); err != nil {
		return err
	}
	if err := listenOutside(ctx, inst, files); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return network.EnterAndExec(inst.Name, append([]string{self}, os.Args[1:]...), os.Environ(), files)
}

func servePlane(ctx context.Context, g *global, files map[string]*os.File) error {
	inst, err := g.open()
	if err != nil {
		return err
	}
	logging := logsv1.NewLoggingConfiguration()
	logging.Format = cmp.Or(inst.LoggingFormat, logging.Format)
	if err := logsv1.ValidateAndApply(logging, nil); err != nil {
		return err
	}
	machine := files[network.MachineNetNS]
	by, err := startedBy()
	if err != nil {
		return err
	}
	outside, doors, err := doorsOf(inst, files)
	if err != nil {
		return err
	}
	dialCluster, proxy, err := wayOut(ctx, inst, machine)
	if err != nil {
		return err
	}
	hosts, err := manager(inst)
	if err != nil {
		return err
	}
	besideCtx, stop := context.WithCancel(ctx)
	ended := beside(besideCtx, proxy, hosts)
	if by.up {
		go statedir.BoundLog(besideCtx, inst.PlaneLog(), reportLog)
	}
	defer func() {
		stop()
		ended()
	}()
	clusters := func(_ context.Context, mgr ctrl.Manager) error {
		return forwardClusters(besideCtx, mgr, inst, machine, dialCluster)
	}
	// What runs on the machine's loopback can be registered as an extension.
	services := serve.LifecycleServices()
	maps.Copy(services, serve.ProviderServices())
	dialer := capi.ExtensionDialer{Namespace: machine, Services: services}
	bundles, err := bundlesOf(inst, files)
	if err != nil {
		return err
	}
	authority := pki.New(pki.Options{Dir: inst.Path("pki")})
	slipway, err := serve.SlipwayProvider(serve.ProviderOptions{Dial: dialer.DialContext, Authority: authority, HostBundles: bundles}, clusters)
	if err != nil {
		return err
	}
	lock := instance.Inherited(files[commandLock])
	var state *statedir.Lock
	if file := files[stateLock]; file != nil {
		state = statedir.Inherited(file)
	}
	return serve.Run(ctx, serve.Options{
		Lock: state,
		// From the first event on the plane holds its own lock.
		Progress: func(component.Event) { lock.Release() },
		StateDir: inst.Dir, Name: inst.Name, Fast: inst.Fast,
		FeatureGates:     inst.FeatureGates,
		NoAuditLog:       inst.NoAuditLog,
		Advertise:        net.IP(inst.Network().Address().AsSlice()),
		Outside:          outside,
		Doors:            doors,
		Foreground:       !by.up && !by.systemd,
		Service:          by.systemd,
		Ready:            by.ready,
		AdminServer:      "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(inst.APIPort)),
		DialExtension:    dialer.DialContext,
		Providers:        []serve.Provider{slipway},
		Extensions:       []serve.Extension{serve.ProviderExtension()},
		LifecycleProgram: lifecycleBeside(hosts),
		LoggingFormat:    logging.Format,
	})
}

// doorsOf take over the sockets by which the API server is reached: for other machines, and
// on the machine's loopback.
func doorsOf(inst *instance.Instance, files map[string]*os.File) (*statedir.Outside, []network.Door, error) {
	listener, err := net.FileListener(files[apiListener])
	if err != nil {
		return nil, nil, fmt.Errorf("take over the socket on 127.0.0.1: %w", err)
	}
	outside, doors, err := outsideOf(inst, files)
	return outside, append(doors, door(listener)), err
}

// door tells in the log of the plane what keeps callers out.
func door(l net.Listener) network.Door {
	return network.Door{Listener: l, OnError: func(err error) {
		klog.ErrorS(err, "Cannot take in connections to the API server", "address", l.Addr().String())
	}}
}

// forwardClusters gives each cluster's API server a port of the machine's loopback, until ctx ends.
func forwardClusters(ctx context.Context, mgr ctrl.Manager, inst *instance.Instance, machine *os.File, dial clusterDialer) error {
	return (&serve.Forwards{
		Client: mgr.GetClient(), StateDir: inst.Dir, Dial: dial,
		Listen: func(ctx context.Context, port int) (net.Listener, error) {
			return network.ListenIn(ctx, machine, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		},
	}).SetupWithManager(ctx, mgr)
}

// beside runs what a plane needs besides its components, until ctx ends, and returns what
// waits for its end.
func beside(ctx context.Context, proxy *serve.Proxy, hosts *localhost.Manager) (wait func()) {
	var running sync.WaitGroup
	if proxy != nil {
		running.Go(func() { serveProxy(ctx, proxy) })
	}
	running.Go(func() { hosts.ServeReboots(ctx, reportReboot) })
	return running.Wait
}

func reportLog(err error) {
	klog.ErrorS(err, "Cannot keep the log of the plane from growing, trying again")
}

func reportReboot(host string, err error) {
	if err != nil {
		klog.ErrorS(err, "Cannot switch a local host on again, trying again", "localHost", host)
		return
	}
	klog.InfoS("Switched on a local host that was rebooted", "localHost", host)
}
