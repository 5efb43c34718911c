package run_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/hostos/inventory"
	"github.com/slipway-dev/slipway/internal/agent/link"
	"github.com/slipway-dev/slipway/internal/agent/link/enroll"
	"github.com/slipway-dev/slipway/internal/agent/run"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/hostbundle/recipe"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/fakehost"
	"github.com/slipway-dev/slipway/test/fakehost/bundlesource"
)

// updating is a host whose agent is a program of its own, and a registry of other ones.
type updating struct {
	*manager
	dir, config string
	agent       *exec.Cmd
	// digests of the bundles by their versions.
	digests map[string]string
}

const module = "github.com/slipway-dev/slipway/"

// built is a real agent of a version.
func built(t *testing.T, dir, version, flags string) string {
	t.Helper()
	path := filepath.Join(dir, version)
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w -X "+module+"internal/version.Version="+version+flags, "-o", path, module+"cmd/slipway-agent")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// bundles puts programs into a layout, and returns the digests by their versions.
func bundles(t *testing.T, layout, publicKey string, programs map[string]string) map[string]string {
	t.Helper()
	signer, _, public := bundlesource.NewKeys(t)
	w, err := hostbundle.NewWriter(layout, signer)
	check(t, err)
	for version, program := range programs {
		check(t, recipe.Agent(w, version, map[string]string{runtime.GOARCH: program}))
	}
	check(t, w.Close())
	writeFile(t, publicKey, public)
	d, err := hostbundle.OpenDirectory(layout)
	check(t, err)
	catalog, err := d.Catalog()
	check(t, err)
	digests := map[string]string{}
	for tag, v := range catalog.Versions {
		version, _ := hostbundle.AgentVersion(tag)
		digests[version] = v.Digest.String()
	}
	return digests
}

// registry serves a layout as registries do, and returns its address.
func registry(t *testing.T, layout string) string {
	t.Helper()
	d, err := hostbundle.OpenDirectory(layout)
	check(t, err)
	catalog, err := d.Catalog()
	check(t, err)
	serve := func(w http.ResponseWriter, r *http.Request, descriptor ocispec.Descriptor) {
		f, err := d.OpenBlob(descriptor.Digest)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		defer func() { _ = f.Close() }()
		w.Header().Set("Content-Type", descriptor.MediaType)
		w.Header().Set("Docker-Content-Digest", descriptor.Digest.String())
		http.ServeContent(w, r, "", time.Time{}, f)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/agents/manifests/{reference}", func(w http.ResponseWriter, r *http.Request) {
		of := digest.Digest(r.PathValue("reference"))
		if v, found := catalog.Versions[of.String()]; found {
			of = v.Digest
		}
		serve(w, r, catalog.Documents[of])
	})
	mux.HandleFunc("GET /v2/agents/blobs/{digest}", func(w http.ResponseWriter, r *http.Request) {
		serve(w, r, catalog.Blobs[digest.Digest(r.PathValue("digest"))])
	})
	mux.HandleFunc("GET /v2/agents/referrers/{digest}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		_ = json.NewEncoder(w).Encode(ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: catalog.Signatures[digest.Digest(r.PathValue("digest"))]})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return "oci://" + strings.TrimPrefix(server.URL, "http://") + "/agents"
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// startUpdating enrolls a host, and starts its agent.
func startUpdating(t *testing.T, m *manager, programs map[string]string, program string) *updating {
	t.Helper()
	u := &updating{manager: m, dir: t.TempDir()}
	u.config = filepath.Join(u.dir, "agent.yaml")
	root := string(fakehost.New(t).Root)
	check(t, errors.Join(os.MkdirAll(root+"/etc/slipway", 0o755), os.MkdirAll(u.dir+"/bin", 0o755), os.Mkdir(u.state(), 0o700)))
	u.digests = bundles(t, u.dir+"/layout", root+"/etc/slipway/hostbundle.pub", programs)
	data, err := os.ReadFile(program)
	check(t, errors.Join(err, os.WriteFile(u.program(), data, 0o755)))
	writeFile(t, u.config, fmt.Sprintf("apiVersion: agent.slipway.dev/v1alpha1\nkind: AgentConfiguration\nnamespace: ns\nhostName: host-1\n"+
		"bootstrapKubeconfig: %[1]s/bootstrap\nstateDir: %[2]s\nkubernetesDirectories: [%[1]s]\nheartbeatInterval: 1s\nleaseDuration: 4s\n"+
		"healthAddress: unix:%[1]s/health\nsoftware: {management: Managed, sources: [%[3]q]}\n", u.dir, u.state(), registry(t, u.dir+"/layout")))
	// An agent does not take a bootstrap kubeconfig whose server is on its host, as that of a test is.
	writeFile(t, u.dir+"/bootstrap", m.bootstrapKubeconfig(t))
	enroller := &enroll.Enroller{StateDir: u.state(), BootstrapKubeconfig: u.dir + "/bootstrap", Namespace: "ns", HostName: "host-1", Log: slog.New(slog.DiscardHandler), Now: time.Now, AllowLoopback: true}
	session, err := enroller.Enroll(t.Context())
	check(t, err)
	session.CloseConnections()
	check(t, os.Remove(u.dir+"/bootstrap"))
	log, err := os.Create(filepath.Join(u.dir, "log"))
	check(t, err)
	u.agent = exec.CommandContext(context.WithoutCancel(t.Context()), u.program(), "run", "-config", u.config, "-root", root)
	u.agent.Stdout, u.agent.Stderr = log, log
	check(t, u.agent.Start())
	t.Cleanup(func() {
		_ = u.agent.Process.Kill()
		_ = u.agent.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("the agent:\n%s", text)
		}
		_ = log.Close()
	})
	return u
}

func (u *updating) program() string { return filepath.Join(u.dir, "bin", "slipway-agent") }
func (u *updating) state() string   { return filepath.Join(u.dir, "state") }

func (u *updating) order(t *testing.T, version string) {
	t.Helper()
	u.patchSpec(t, fmt.Sprintf(`{"agent":{"version":%q,"releaseDigest":%q}}`, version, u.digests[version]))
}

// runs says which file the process of the agent was started from, if that is the first one.
func (u *updating) runs(t *testing.T, want string) {
	t.Helper()
	running, err := os.ReadFile(fmt.Sprintf("/proc/%d/exe", u.agent.Process.Pid))
	check(t, err)
	wanted, err := os.ReadFile(want)
	check(t, err)
	onDisk, err := os.ReadFile(u.program())
	check(t, err)
	if string(running) != string(wanted) || string(onDisk) != string(wanted) {
		t.Errorf("the first process runs %s: %v, and its program is that: %v", want, string(running) == string(wanted), string(onDisk) == string(wanted))
	}
	if left, err := filepath.Glob(u.program() + ".*"); err != nil || len(left) > 0 {
		t.Errorf("beside it is %v, %v", left, err)
	}
}

// Two agents as they are built: the second takes the place of the first, and a third one, which
// never reports, does not.
func TestAgentUpdatesItself(t *testing.T) {
	level.Deep(t)
	m := &manager{apiServer: startAPIServer(t), life: time.Hour, requests: map[string][]byte{}}
	m.allowRequests(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { m.run(ctx, t); close(done) }()
	defer func() { cancel(); <-done }()
	dir := t.TempDir()
	first := built(t, dir, "v0.1.0", "")
	second := built(t, dir, "v0.2.0", " -X "+module+"internal/agent/selfupdate.hurry=2s,1m,100ms")
	third := filepath.Join(dir, "v0.3.0")
	writeFile(t, third, "#!/bin/sh\n[ \"$1\" = version ] && echo v0.3.0 && exit\nexec sleep 1000\n")
	fourth := filepath.Join(dir, "v0.4.0")
	writeFile(t, fourth, "#!/bin/sh\n[ \"$1\" = version ] && echo v0.4.0 && exit\necho started >&$SLIPWAY_AGENT_TRIAL\necho $$ >\"$0.pid\"\nexec sleep 1000\n")
	u := startUpdating(t, m, map[string]string{"v0.2.0": second, "v0.3.0": third, "v0.4.0": fourth}, first)

	t.Log("runs, and says that it updates itself")
	awaitHost(t, m, "a report of v0.1.0", func(h *infrav1.Host) bool {
		return h.Status.Inventory.AgentVersion == "v0.1.0" && h.Status.Software.AgentManagement == infrav1.HostSoftwareManaged && h.Status.AgentUpdate == nil
	})
	t.Log("becomes what was ordered")
	u.order(t, "v0.2.0")
	awaitHost(t, m, "a report of v0.2.0", func(h *infrav1.Host) bool {
		return h.Status.Inventory.AgentVersion == "v0.2.0" && h.Status.AgentUpdate == nil
	})
	u.runs(t, second)
	if _, err := os.Stat(u.state() + "/agent-update.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the record of the update: %v", err)
	}
	t.Log("does not go back")
	u.patchSpec(t, fmt.Sprintf(`{"agent":{"version":"v0.1.0","releaseDigest":%q}}`, u.digests["v0.2.0"]))
	beat := m.renewTime(t)
	poll.Until(t, "another heartbeat", func() error {
		if now := m.renewTime(t); now == beat {
			return fmt.Errorf("still %s", now)
		}
		return nil
	})
	u.runs(t, second)

	t.Log("tells what stands in the way")
	u.patchSpec(t, fmt.Sprintf(`{"agent":{"version":"v0.3.0","releaseDigest":%q}}`, u.digests["v0.2.0"]))
	awaitHost(t, m, "another bundle of the version", func(h *infrav1.Host) bool {
		s := h.Status.AgentUpdate
		return s != nil && s.State == infrav1.HostAgentUpdateFetching && strings.Contains(s.Message, "OtherBundle: ")
	})

	t.Log("stays what it is when another one does not prove itself")
	u.order(t, "v0.3.0")
	awaitHost(t, m, "a report of the failure", func(h *infrav1.Host) bool {
		s := h.Status.AgentUpdate
		return s != nil && s.State == infrav1.HostAgentUpdateFailed && strings.Contains(s.Message, "tried 3 of 3 times: the new agent did not start within 2s") &&
			s.Version == "v0.3.0" && h.Status.Inventory.AgentVersion == "v0.2.0"
	})
	u.runs(t, second)
	c, err := config.Load(u.config)
	check(t, err)
	status, err := run.ReadStatus(t.Context(), c)
	if err != nil || !status.Running || status.AgentUpdate == nil || status.AgentUpdate.State != infrav1.HostAgentUpdateFailed {
		t.Errorf("%+v, %v", status, err)
	}

	t.Log("ends when it is told to, and another one on trial with it")
	u.order(t, "v0.4.0")
	var tried int
	poll.Until(t, "a trial", func() error {
		data, err := os.ReadFile(u.program() + ".next.pid")
		if err == nil {
			tried, err = strconv.Atoi(strings.TrimSpace(string(data)))
		}
		return err
	})
	check(t, u.agent.Process.Signal(syscall.SIGTERM))
	if err := u.agent.Wait(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(tried, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the one on trial is there still: %v", err)
	}
	if status, err := run.ReadStatus(t.Context(), c); err != nil || status.Running || status.AgentUpdate == nil || status.AgentUpdate.Attempts != 0 {
		t.Errorf("%+v, %v", status, err)
	}
	t.Log("only looks while it is on trial")
	u.onlyLooks(t)
	t.Log("leaves nothing that an uninstall does not know of")
	uninstalled(t, u.state())
}

// onlyLooks holds that an agent on trial begins nothing, and stays in its namespace.
func (u *updating) onlyLooks(t *testing.T) {
	t.Helper()
	u.patchSpec(t, `{"assignedNamespace":"elsewhere"}`)
	before, err := os.ReadFile(u.state() + "/journal")
	check(t, err)
	j, err := journal.Frozen(u.state() + "/journal")
	check(t, err)
	ctx, cancel := context.WithCancel(poll.Context(t))
	defer cancel()
	var log bytes.Buffer
	served, renewed, reported := make(chan struct{}, 100), make(chan struct{}, 100), make(chan string, 100)
	to := slog.New(slog.NewTextHandler(&log, nil))
	s := &run.Service{
		Enroller: &enroll.Enroller{StateDir: u.state(), BootstrapKubeconfig: u.dir + "/bootstrap", Namespace: "ns", HostName: "host-1", Log: to, Now: time.Now},
		Journal:  j, Log: to,
		Options: link.Options{
			// An executor that is asked for anything ends the test.
			Namespace: "ns", HostName: "host-1", HostID: "id", BootID: "boot-1", Executor: struct{ operation.Executor }{}, Log: to,
			Inventory: func(context.Context, inventory.Node) (inventory.Facts, error) {
				return inventory.Facts{Inventory: infrav1.HostInventory{AgentVersion: "v0.3.0"}}, nil
			},
			HeartbeatInterval: time.Second, LeaseDuration: 4 * time.Second, Trial: true,
			Served:  func(*infrav1.Host) { served <- struct{}{} },
			Renewed: func() { renewed <- struct{}{} }, Reported: func(s infrav1.HostStatus) { reported <- s.Inventory.AgentVersion },
		},
	}
	go func() {
		<-served
		<-renewed
		if got := <-reported; got != "v0.3.0" {
			t.Errorf("reported %q", got)
		}
		// One that goes elsewhere waits for as long as from one renewal to the next.
		for range 2 {
			<-renewed
		}
		cancel()
	}()
	if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	after, err := os.ReadFile(u.state() + "/journal")
	if err != nil || !bytes.Equal(before, after) || strings.Contains(log.String(), "another namespace") {
		t.Errorf("%v: the journal was\n%s\nand is\n%s\nlog:\n%s", err, before, after, &log)
	}
}
