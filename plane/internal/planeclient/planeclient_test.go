package planeclient

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/internal/status"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

var key = client.ObjectKey{Namespace: "default", Name: "a"}

func kubeconfig(t *testing.T, serverName string) []byte {
	t.Helper()
	kc := clientcmdapi.NewConfig()
	kc.Clusters["a"] = &clientcmdapi.Cluster{Server: "https://10.88.0.200:6443/path", CertificateAuthorityData: []byte("CA"), TLSServerName: serverName}
	kc.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: "t"}
	kc.Contexts["c"] = &clientcmdapi.Context{Cluster: "a", AuthInfo: "admin"}
	kc.CurrentContext = "c"
	data, err := clientcmd.Write(*kc)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestLocalKubeconfig(t *testing.T) {
	for given, want := range map[string]string{"": "10.88.0.200", "api.example.com": "api.example.com"} {
		data, err := localKubeconfig(kubeconfig(t, given), 4711)
		if err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(data)
		if err != nil {
			t.Fatal(err)
		}
		// The way leads over a port of this machine, the proof is still the cluster's own.
		if config.Host != "https://127.0.0.1:4711/path" || config.ServerName != want || string(config.CAData) != "CA" || config.Insecure || config.BearerToken != "t" {
			t.Errorf("%+v, want the name %s", config, want)
		}
	}
	if _, err := localKubeconfig([]byte("{"), 1); err == nil {
		t.Error("a broken kubeconfig was taken")
	}
}

func TestWorkloadKubeconfig(t *testing.T) {
	inst := &instance.Instance{Dir: t.TempDir()}
	empty := fake.NewClientBuilder().Build()
	if _, err := WorkloadKubeconfig(t.Context(), inst, empty, key); err == nil || !strings.Contains(err.Error(), "default/a") || !strings.Contains(err.Error(), "slipway status") {
		t.Errorf("without a cluster: %v", err)
	}
	secret := &corev1.Secret{Data: map[string][]byte{"value": kubeconfig(t, "")}}
	secret.Namespace, secret.Name = key.Namespace, key.Name+"-kubeconfig"
	c := fake.NewClientBuilder().WithObjects(secret).Build()
	if _, err := WorkloadKubeconfig(t.Context(), inst, c, key); err == nil || !strings.Contains(err.Error(), "not forwarded") {
		t.Errorf("without a port: %v", err)
	}
	if err := os.WriteFile(filepath.Join(inst.Dir, statedir.ForwardsFile), []byte(`{"default/a": 4711}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		kubeconfig, err := WorkloadKubeconfig(t.Context(), inst, c, key)
		if err != nil {
			t.Fatal(err)
		}
		// Namespace and name apart: cluster "b-c" of "a" is not "c" of "a-b".
		if want := inst.Path("clusters", key.Namespace, key.Name+".kubeconfig"); kubeconfig.Path != want {
			t.Errorf("it belongs into %s, not %s", kubeconfig.Path, want)
		}
		path, err := kubeconfig.Write()
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), "127.0.0.1:4711") {
			t.Errorf("%v\n%s", err, data)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	}
}

func TestPlaneThatDoesNotRun(t *testing.T) {
	inst := &instance.Instance{Dir: t.TempDir()}
	// A kubeconfig from before must not be taken for a plane.
	if err := os.WriteFile(inst.Kubeconfig(), kubeconfig(t, ""), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(inst); !errors.Is(err, management.ErrNotRunning) {
		t.Errorf("New = %v, want ErrNotRunning", err)
	}
	s, err := Status(t.Context(), inst, func() (client.WithWatch, error) { return New(inst) }, status.Scope{})
	if err != nil || s.Plane.Ready || s.Plane.PID != 0 || s.Plane.Message != management.ErrNotRunning.Error() || s.Clusters == nil || s.Hosts == nil {
		t.Errorf("Status = %+v, %v; want empty lists and what to do", s, err)
	}
}

// Of a plane that crashed the count, the age and the cause are shown, and who ends it.
func TestPlaneThatCrashed(t *testing.T) {
	inst := &instance.Instance{Dir: t.TempDir()}
	show := func() status.Plane {
		t.Helper()
		s, err := Status(t.Context(), inst, func() (client.WithWatch, error) { return New(inst) }, status.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		return s.Plane
	}
	crashes := statedir.Crashes{Count: 3, Last: time.Now().Add(-3 * time.Hour), What: "panic: no map"}
	if err := statedir.WriteCrashes(inst.Dir, crashes); err != nil {
		t.Fatal(err)
	}
	crashed := "; it crashed 3 times, the last 3h ago: panic: no map (log: " + inst.PlaneLog() + ")"
	if got, want := show(), management.ErrNotRunning.Error()+crashed; got.Message != want {
		t.Errorf("its supervisor was killed, too: %q, want %q", got.Message, want)
	}
	lock, err := statedir.Take(inst.Dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Release() })
	if err := lock.SignAsSupervisor(); err != nil {
		t.Fatal(err)
	}
	if got, want := show(), "starting"+crashed+"; it is started again each time, until `slipway down`"; got.Message != want || got.Ready || got.PID != 0 {
		t.Errorf("between two starts: %+v, want %q", got, want)
	}
	if _, err := New(inst); !errors.Is(err, management.ErrNotRunning) {
		t.Errorf("between two starts: New = %v, want ErrNotRunning", err)
	}
	if err := lock.SignAsPlane(); err != nil {
		t.Fatal(err)
	}
	s, err := gather(inst, func() (client.WithWatch, error) { return nil, nil }, func(client.Reader) (status.Status, error) { return status.Status{}, errors.New("no matches for kind") })
	if err != nil || s.Plane.Ready || s.Plane.Start == nil || !strings.HasPrefix(s.Plane.Message, "starting; it crashed 3 times") {
		t.Errorf("it starts and does not serve everything yet: %+v, %v", s.Plane, err)
	}
	if err := statedir.WriteStatus(inst.Dir, &statedir.Status{PID: os.Getpid(), Ready: true}); err != nil {
		t.Fatal(err)
	}
	plane, err := planeStatus(inst)
	if err != nil || !plane.Ready || plane.Message != "" || plane.Crashes == nil || plane.Crashes.Count != 3 || plane.Crashes.Reason != crashes.What {
		t.Errorf("it runs again: %+v, %v", plane, err)
	}
}
