package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
	"github.com/slipway-dev/slipway/plane/internal/component"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

const testNamespace = "tenant"

// TestPlane runs a whole plane three times on the same directory. The parts are
// one test because a plane takes seconds to come up.
func TestPlane(t *testing.T) {
	level.Deep(t)
	dir := t.TempDir()
	args := []string{dir, net.JoinHostPort("127.0.0.1", strconv.Itoa(shared.FreePort(t))), strconv.Itoa(shared.FreePort(t))}

	first := start(t, args)
	t.Run("administrator's kubeconfig is private", first.kubeconfigIsPrivate)
	t.Run("health endpoint", first.health)
	t.Run("second plane is refused", first.secondIsRefused)
	t.Run("CRDs carry clusterctl's labels", first.crdLabels)
	t.Run("inventory", first.inventory)
	t.Run("webhooks and conversion", first.webhooks)
	t.Run("a version that is not stored can be watched", first.watchConverted)
	t.Run("invalid objects are refused", first.invalid)
	t.Run("a dead extension shows, and stops nothing", first.extension)
	t.Run("certificate request", first.certificate)
	t.Run("requests without credentials", first.anonymous)
	t.Run("silent connections", first.flooded)
	t.Run("audit log", first.audited)
	t.Run("aggregated roles", first.aggregation)
	t.Run("namespace deletion and garbage collection", first.deletion)
	t.Run("Secrets are encrypted at rest", first.confidentialIsNowhere)
	first.memory(t)
	first.kill(t)

	second := start(t, args)
	t.Run("data is kept over kill -9", second.webhooksRead)
	before := second.webhookVersion(t)
	second.stop(t)
	t.Run("without its key a plane does not start", func(t *testing.T) { withoutItsKey(t, args) })

	third := start(t, args)
	t.Run("data is kept over a stop", third.webhooksRead)
	if after := third.webhookVersion(t); after != before {
		t.Errorf("manifests were applied again: resourceVersion %s, was %s", after, before)
	}
	third.stop(t)
}

// TestMain lets the test binary be a plane: it is how a plane runs, and upstream
// has package variables that allow only one in the life of a process.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "plane" {
		os.Exit(planeMain(os.Args[2], os.Args[3], os.Args[4]))
	}
	os.Exit(testenv.Main(m, runtimev1.AddToScheme, func(e *testenv.Env) error { env = e; return nil }))
}

func planeMain(dir, bind, webhookPort string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	port, err := strconv.Atoi(webhookPort)
	if err == nil {
		err = Run(ctx, Options{
			StateDir: dir, Bind: bind, WebhookPort: port,
			Progress: func(e component.Event) {
				fmt.Printf("%6.2fs %s %s %s\n", e.Elapsed.Seconds(), e.Component, e.Phase, e.Reason)
			},
		})
	}
	if err != nil {
		fmt.Println("ERROR", err)
		return 1
	}
	return 0
}

// plane is a running plane under test.
type plane struct {
	dir     string
	process *exec.Cmd
	exited  chan error
	client  kubernetes.Interface
	dynamic dynamic.Interface
}

func start(t *testing.T, args []string) *plane {
	t.Helper()
	p := &plane{dir: args[0], exited: make(chan error, 1)}
	log, err := os.OpenFile(filepath.Join(t.ArtifactDir(), "plane.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err)
	p.process = exec.Command(os.Args[0], append([]string{"plane"}, args...)...)
	p.process.Stdout, p.process.Stderr = t.Output(), log
	began := time.Now()
	must(t, p.process.Start())
	t.Cleanup(func() { _ = p.process.Process.Kill() })
	go func() {
		p.exited <- p.process.Wait()
		log.Close()
	}()
	p.waitReady(t)
	t.Logf("ready after %s", time.Since(began))

	config, err := clientcmd.BuildConfigFromFlags("", statedir.Kubeconfig(p.dir))
	must(t, err)
	config.QPS = -1
	p.client, err = kubernetes.NewForConfig(config)
	must(t, err)
	p.dynamic, err = dynamic.NewForConfig(config)
	must(t, err)
	return p
}

func (p *plane) waitReady(t *testing.T) {
	t.Helper()
	poll.True(t, "the plane comes up", func() bool {
		select {
		case err := <-p.exited:
			t.Fatalf("plane ended while starting: %v", err)
		default:
		}
		status, err := statedir.ReadStatus(p.dir)
		return err == nil && status.Ready && status.PID == p.process.Process.Pid
	})
}

func (p *plane) kill(t *testing.T) {
	t.Helper()
	must(t, p.process.Process.Kill())
	<-p.exited //nolint:errcheck // it was killed, so it says so
}

func (p *plane) stop(t *testing.T) {
	t.Helper()
	began := time.Now()
	must(t, p.process.Process.Signal(syscall.SIGTERM))
	must(t, poll.Receive(t, "the plane stops", p.exited))
	t.Logf("stopped after %s", time.Since(began))
	status, err := statedir.ReadStatus(p.dir)
	must(t, err)
	if status.Ready || status.Error != "" {
		t.Errorf("status after the stop: ready=%v error=%q", status.Ready, status.Error)
	}
}

// memory only reports: the figure depends on what else the machine does.
func (p *plane) memory(t *testing.T) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.process.Process.Pid))
	must(t, err)
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "VmHWM") || strings.HasPrefix(line, "RssAnon") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// webhookVersion changes with every write to a webhook configuration.
func (p *plane) webhookVersion(t *testing.T) string {
	t.Helper()
	c, err := p.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "capi-validating-webhook-configuration", metav1.GetOptions{})
	must(t, err)
	return c.ResourceVersion
}

func (p *plane) kubeconfigIsPrivate(t *testing.T) {
	for _, path := range []string{statedir.Kubeconfig(p.dir), filepath.Join(p.dir, "pki", "ca.key"), filepath.Join(p.dir, "pki", "admin.key")} {
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
	}
}

func (p *plane) health(t *testing.T) {
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", statedir.Socket(p.dir))
		},
		DisableKeepAlives: true,
	}}
	for path, want := range map[string]string{"/readyz": "ok", "/healthz": "ok", "/metrics": "slipway_plane_last_backup_timestamp_seconds 0"} {
		// The group tells that it is ready just before the endpoint does.
		eventually(t, path+" answers with "+want, func(context.Context) (bool, error) {
			resp, err := client.Get("http://plane" + path)
			if err != nil {
				return false, err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			return resp.StatusCode == http.StatusOK && strings.Contains(string(body), want), err
		})
	}
	status, err := statedir.ReadStatus(p.dir)
	must(t, err)
	if !status.Ready || status.PID != p.process.Process.Pid {
		t.Errorf("status: %+v", status)
	}
}

func (p *plane) secondIsRefused(t *testing.T) {
	err := Run(t.Context(), Options{StateDir: p.dir})
	var locked *statedir.LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("got %v, want a LockedError", err)
	}
	if want := p.process.Process.Pid; locked.Holder.PID != want {
		t.Errorf("holder %d, want %d", locked.Holder.PID, want)
	}
}

func eventually(t *testing.T, what string, f wait.ConditionWithContextFunc) {
	t.Helper()
	began := time.Now()
	poll.Until(t, what, func() error {
		ok, err := f(t.Context())
		if err == nil && !ok {
			err = errors.New("it is not")
		}
		return err
	})
	t.Logf("%s after %s", what, time.Since(began).Round(time.Millisecond))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
