package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	if f.dir != "" && f.cluster.kubeconfig == "" && f.cluster.context == "" {
		return nil, nil
	}
	if f.dir == "" && (f.cluster.kubeconfig != "" || f.cluster.context != "") {
		return nil, errors.New("--kubeconfig and --context are for bundles that a slipway-manager serves: name their directory by --dir")
	}
	return f.cluster.open(cmd)
}

// publish has Machines know of the versions that hosts can install now.
func publish(ctx context.Context, s *session, versions []hostbundle.Version) error {
	for _, v := range versions {
		release := &infrav1.KubernetesRelease{ObjectMeta: metav1.ObjectMeta{Name: v.KubernetesVersion}}
		_, err := controllerutil.CreateOrUpdate(ctx, s, release, func() error {
			release.Spec = infrav1.KubernetesReleaseSpec{Version: v.KubernetesVersion, Digest: v.Digest.String(), Architectures: v.Architectures}
			return nil
		})
		if err != nil {
			return fmt.Errorf("the bundles are loaded, and Machines do not know it: write KubernetesRelease %s: %w; the same command goes on", v.KubernetesVersion, s.cluster.Explain(err))
		}
	}
	return nil
}

// withdraw takes back what the command load wrote, where there is a management cluster.
func (f *bundleFlags) withdraw(cmd *cobra.Command, store hostbundle.Store, versions []string) error {
	releases, err := f.releases(cmd)
	if err != nil || releases == nil {
		return err
	}
	// One that is damaged can be removed, too; which digest it had is not known then.
	there, _ := store.List()
	return withdraw(cmd.Context(), releases, there, versions)
}

// withdraw takes back what publish wrote of bundles that are about to be removed. It
// refuses while a host is to install one of them. A release of another bundle stays.
func withdraw(ctx context.Context, s *session, there []hostbundle.Version, versions []string) error {
	digests := map[string]string{}
	for _, v := range there {
		digests[v.KubernetesVersion] = v.Digest.String()
	}
	list := &infrav1.HostList{}
	if err := s.List(ctx, list); err != nil {
		return s.cluster.Explain(fmt.Errorf("look for hosts that install the bundles: %w", err))
	}
	for _, version := range versions {
		if waiting := installing(list.Items, digests[version]); len(waiting) > 0 {
			return fmt.Errorf("the bundle of Kubernetes %s is being installed by: %s; wait for them, or delete their Machines", version, strings.Join(waiting, ", "))
		}
	}
	for _, version := range versions {
		release := &infrav1.KubernetesRelease{}
		err := s.Get(ctx, client.ObjectKey{Name: version}, release)
		if apierrors.IsNotFound(err) || err == nil && release.Spec.Digest != digests[version] {
			continue
		}
		if err == nil {
			err = client.IgnoreNotFound(s.Delete(ctx, release, client.Preconditions{ResourceVersion: &release.ResourceVersion}))
		}
		if err != nil {
			return s.cluster.Explain(fmt.Errorf("delete KubernetesRelease %s: %w; nothing was removed", version, err))
		}
	}
	return nil
}

// installing are the hosts with an operation that names the bundle and that has not ended.
func installing(all []infrav1.Host, digest string) []string {
	var names []string
	more := 0
	for i := range all {
		h := &all[i]
		if digest == "" || h.Spec.Desired == nil || h.Spec.Desired.ReleaseDigest != digest || !hosts.Busy(h) || hosts.RunningVersion(h) != "" {
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
