package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	hosts "github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// maxHostsNamed is how many hosts an error names before it counts the rest.
const maxHostsNamed = 3

// releases are the KubernetesReleases of the management cluster that serves the bundles:
// that of the plane, or the one that is named beside --dir. It returns nil where none is
// named, as for a directory that is filled from a machine without access.
func (f *bundleFlags) releases(cmd *cobra.Command) (*session, error) {
	named := f.cluster.kubeconfig != "" || f.cluster.overrides.CurrentContext != ""
	if f.dir != "" && !named {
		return nil, nil
	}
	f.cluster.ofPlane = f.dir == ""
	if f.dir == "" && named {
		return nil, errors.New("--kubeconfig and --context are for bundles that a slipway-manager serves: name their directory by --dir")
	}
	return f.cluster.open(cmd)
}

// publish has Machines know of the versions that hosts can install now, and the manager of the
// agents that it can roll out.
func publish(ctx context.Context, s *session, versions []hostbundle.Version) error {
	for _, v := range versions {
		object, fill := released(v)
		_, err := controllerutil.CreateOrUpdate(ctx, s, object, func() error {
			fill()
			return nil
		})
		if err != nil {
			return fmt.Errorf("the bundles are loaded, and the management cluster does not know it: write %s %s: %w; the same command goes on", kindOf(object), object.GetName(), s.cluster.Explain(err))
		}
	}
	return nil
}

// released is the object that tells of a bundle, and what writes into it what load knows: a
// rollout that somebody paused stays so.
func released(v hostbundle.Version) (object client.Object, fill func()) {
	if version, agent := hostbundle.AgentVersion(v.Tag); agent {
		release := &infrav1.AgentRelease{ObjectMeta: metav1.ObjectMeta{Name: version}}
		return release, func() {
			release.Spec.Version, release.Spec.Digest, release.Spec.Architectures = version, v.Digest.String(), v.Architectures
		}
	}
	release := &infrav1.KubernetesRelease{ObjectMeta: metav1.ObjectMeta{Name: v.Tag}}
	return release, func() {
		release.Spec = infrav1.KubernetesReleaseSpec{Version: v.Tag, Digest: v.Digest.String(), Architectures: v.Architectures, Origin: infrav1.SoftwareOrigin(v.Origin)}
	}
}

// kindOf names what released returned.
func kindOf(object client.Object) string {
	if _, ok := object.(*infrav1.AgentRelease); ok {
		return "AgentRelease"
	}
	return "KubernetesRelease"
}

// digestOf is that of the bundle which the object tells of.
func digestOf(object client.Object) string {
	switch release := object.(type) {
	case *infrav1.AgentRelease:
		return release.Spec.Digest
	case *infrav1.KubernetesRelease:
		return release.Spec.Digest
	}
	return ""
}

// withdraw takes back what the command load wrote, where there is a management cluster.
func (f *bundleFlags) withdraw(cmd *cobra.Command, store hostbundle.Store, tags []string) error {
	releases, err := f.releases(cmd)
	if err != nil || releases == nil {
		return err
	}
	// One that is damaged can be removed, too.
	digests, err := store.Digests()
	if err != nil {
		return err
	}
	return withdraw(cmd.Context(), releases, digests, tags)
}

// withdraw takes back what publish wrote of bundles that are about to be removed. It
// refuses while a host is to install one of them. A release of another bundle stays.
func withdraw(ctx context.Context, s *session, there map[string]digest.Digest, tags []string) error {
	list := &infrav1.HostList{}
	if err := s.List(ctx, list); err != nil {
		return s.cluster.Explain(fmt.Errorf("look for hosts that install the bundles: %w", err))
	}
	for _, tag := range tags {
		if waiting := installing(list.Items, there[tag].String()); len(waiting) > 0 {
			return fmt.Errorf("the bundle of %s is being installed by: %s; wait for them, or delete their Machines if it is a Kubernetes version", hostbundle.Title(tag), strings.Join(waiting, ", "))
		}
	}
	for _, tag := range tags {
		release, _ := released(hostbundle.Version{Tag: tag})
		err := s.Get(ctx, client.ObjectKeyFromObject(release), release)
		if apierrors.IsNotFound(err) || err == nil && digestOf(release) != there[tag].String() {
			continue
		}
		if err == nil {
			version := release.GetResourceVersion()
			err = client.IgnoreNotFound(s.Delete(ctx, release, client.Preconditions{ResourceVersion: &version}))
		}
		if err != nil {
			return s.cluster.Explain(fmt.Errorf("delete %s %s: %w; nothing was removed", kindOf(release), release.GetName(), err))
		}
	}
	return nil
}

// installing are the hosts that are to install the bundle and have not done so.
func installing(all []infrav1.Host, digest string) []string {
	var names []string
	more := 0
	for i := range all {
		h := &all[i]
		if digest == "" || !installs(h, digest) && !updates(h, digest) {
			continue
		}
		if len(names) == maxHostsNamed {
			more++
			continue
		}
		names = append(names, h.Namespace+"/"+h.Name)
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return names
}

// installs says whether an operation that has not ended names the bundle.
func installs(h *infrav1.Host, digest string) bool {
	return h.Spec.Desired != nil && h.Spec.Desired.ReleaseDigest == digest && hosts.Busy(h) && hosts.RunningVersion(h) == ""
}

// updates says whether the agent is asked to update by the bundle, and has neither done so nor
// given up.
func updates(h *infrav1.Host, digest string) bool {
	asked, update := h.Spec.Agent, h.Status.AgentUpdate
	if asked == nil || asked.ReleaseDigest != digest || h.Status.Inventory.AgentVersion == asked.Version {
		return false
	}
	return update == nil || update.ReleaseDigest != digest || update.State != infrav1.HostAgentUpdateFailed
}
