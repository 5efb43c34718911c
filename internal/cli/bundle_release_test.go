package cli

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/management"
)

// loadedBundles is a store with two versions and an agent.
func loadedBundles(t *testing.T) []hostbundle.Version {
	t.Helper()
	dir, _ := hostBundles(t)
	from, err := hostbundle.OpenDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := hostbundle.Store{Dir: filepath.Join(t.TempDir(), "store")}.Load(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func digestsOf(bundles []hostbundle.Version) map[string]digest.Digest {
	digests := map[string]digest.Digest{}
	for _, v := range bundles {
		digests[v.Tag] = v.Digest
	}
	return digests
}

func sessionWith(t *testing.T, objects ...client.Object) *session {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := infrav1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return &session{WithWatch: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), cluster: &management.Cluster{Name: "test"}}
}

// Machines are told of what was loaded, by the digest that was signed, and of another bundle of
// the version once that is.
func TestPublish(t *testing.T) {
	loaded, again := loadedBundles(t), loadedBundles(t)
	s := sessionWith(t)
	for _, versions := range [][]hostbundle.Version{loaded, loaded, again} {
		if err := publish(t.Context(), s, versions); err != nil {
			t.Fatal(err)
		}
		for _, v := range versions {
			if version, agent := hostbundle.AgentVersion(v.Tag); agent {
				release := &infrav1.AgentRelease{}
				err := s.Get(t.Context(), client.ObjectKey{Name: version}, release)
				if err != nil || release.Spec.Version != version || release.Spec.Digest != v.Digest.String() || strings.Join(release.Spec.Architectures, " ") != "arm64" {
					t.Errorf("%+v: %v", release.Spec, err)
				}
				continue
			}
			release := &infrav1.KubernetesRelease{}
			err := s.Get(t.Context(), client.ObjectKey{Name: v.Tag}, release)
			if err != nil || release.Spec.Version != v.Tag || release.Spec.Digest != v.Digest.String() || strings.Join(release.Spec.Architectures, " ") != "arm64" {
				t.Errorf("%+v: %v", release.Spec, err)
			}
		}
	}
}

func TestWithdraw(t *testing.T) {
	loaded := loadedBundles(t)
	const version = "v1.36.3"
	var digest string
	for _, v := range loaded {
		if v.Tag == version {
			digest = v.Digest.String()
		}
	}
	host := func(state infrav1.OperationState, digest string) *infrav1.Host {
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "host-1"}}
		h.Spec.Claim = &infrav1.HostClaim{ClaimID: "c"}
		h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredBootstrapped, OperationID: "o", Version: version, ReleaseDigest: digest}
		if state != "" {
			h.Status.ObservedOperation = &infrav1.ObservedOperation{ID: "o", State: state}
		}
		return h
	}
	for name, c := range map[string]struct {
		host    *infrav1.Host
		refused bool
	}{
		"not begun":       {host("", digest), true},
		"under way":       {host(infrav1.OperationRunning, digest), true},
		"another bundle":  {host(infrav1.OperationRunning, "sha256:other"), false},
		"no bundle":       {host(infrav1.OperationRunning, ""), false},
		"done":            {host(infrav1.OperationSucceeded, digest), false},
		"failed for good": {host(infrav1.OperationFailed, digest), false},
		"the report is lost": {func() *infrav1.Host {
			h := host("", digest)
			h.Spec.Desired.Bootstrapped = new(bool)
			*h.Spec.Desired.Bootstrapped = true
			return h
		}(), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := sessionWith(t, c.host)
			if err := publish(t.Context(), s, loaded); err != nil {
				t.Fatal(err)
			}
			err := withdraw(t.Context(), s, digestsOf(loaded), []string{version})
			if c.refused != (err != nil) || err != nil && !strings.Contains(err.Error(), "is being installed by: prod/host-1") {
				t.Errorf("err = %v", err)
			}
			err = s.Get(t.Context(), client.ObjectKey{Name: version}, &infrav1.KubernetesRelease{})
			if c.refused != (err == nil) || err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("the KubernetesRelease: %v", err)
			}
			if err := s.Get(t.Context(), client.ObjectKey{Name: "v1.35.4"}, &infrav1.KubernetesRelease{}); err != nil {
				t.Errorf("that of another version: %v", err)
			}
		})
	}
	// What somebody else tells Machines of stays.
	s := sessionWith(t, &infrav1.KubernetesRelease{ObjectMeta: metav1.ObjectMeta{Name: version}, Spec: infrav1.KubernetesReleaseSpec{Version: version, Digest: "sha256:other"}})
	err := errors.Join(withdraw(t.Context(), s, digestsOf(loaded), []string{version}), s.Get(t.Context(), client.ObjectKey{Name: version}, &infrav1.KubernetesRelease{}))
	if err != nil {
		t.Error(err)
	}
}

// A rollout that somebody paused is not begun by loading a mended agent.
func TestPublishLeavesAPause(t *testing.T) {
	s := sessionWith(t, &infrav1.AgentRelease{ObjectMeta: metav1.ObjectMeta{Name: "v0.2.0"}, Spec: infrav1.AgentReleaseSpec{Version: "v0.2.0", Digest: "sha256:other", Paused: ptr.To(true)}})
	release := &infrav1.AgentRelease{}
	if err := errors.Join(publish(t.Context(), s, loadedBundles(t)), s.Get(t.Context(), client.ObjectKey{Name: "v0.2.0"}, release)); err != nil {
		t.Fatal(err)
	}
	if !ptr.Deref(release.Spec.Paused, false) || release.Spec.Digest == "sha256:other" {
		t.Errorf("%+v", release.Spec)
	}
}

// What agents update to stays while one of them is at it, and no longer.
func TestWithdrawAgent(t *testing.T) {
	loaded := loadedBundles(t)
	const version = "v0.2.0"
	tag, digest := hostbundle.AgentTag(version), loaded[len(loaded)-1].Digest.String()
	host := func(runs string, update infrav1.HostAgentUpdateState, of string) *infrav1.Host {
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "host-1"}}
		h.Spec.Agent = &infrav1.HostAgentSpec{Version: version, ReleaseDigest: digest}
		h.Status.Inventory.AgentVersion = runs
		if update != "" {
			h.Status.AgentUpdate = &infrav1.HostAgentUpdate{Version: version, ReleaseDigest: of, State: update}
		}
		return h
	}
	for name, c := range map[string]struct {
		host    *infrav1.Host
		refused bool
	}{
		"asked":                 {host("v0.1.0", "", ""), true},
		"fetching":              {host("v0.1.0", infrav1.HostAgentUpdateFetching, digest), true},
		"gave up":               {host("v0.1.0", infrav1.HostAgentUpdateFailed, digest), false},
		"gave up one of before": {host("v0.1.0", infrav1.HostAgentUpdateFailed, "sha256:other"), true},
		"done":                  {host(version, "", ""), false},
		"asked for another bundle": {func() *infrav1.Host {
			h := host("v0.1.0", "", "")
			h.Spec.Agent.ReleaseDigest = "sha256:other"
			return h
		}(), false},
		"asked for none": {func() *infrav1.Host { h := host("v0.1.0", "", ""); h.Spec.Agent = nil; return h }(), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := sessionWith(t, c.host)
			if err := publish(t.Context(), s, loaded); err != nil {
				t.Fatal(err)
			}
			err := withdraw(t.Context(), s, digestsOf(loaded), []string{tag})
			if c.refused != (err != nil) || err != nil && !strings.Contains(err.Error(), "the bundle of slipway-agent v0.2.0 is being installed by: prod/host-1") {
				t.Errorf("err = %v", err)
			}
			err = s.Get(t.Context(), client.ObjectKey{Name: version}, &infrav1.AgentRelease{})
			if c.refused != (err == nil) || err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("the AgentRelease: %v", err)
			}
		})
	}
}
