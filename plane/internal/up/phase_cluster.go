package up

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/clusters"
	"github.com/slipway-dev/slipway/internal/status"
	"github.com/slipway-dev/slipway/plane/internal/progress"
	"github.com/slipway-dev/slipway/templates"
)

const (
	// pollInterval is how often a phase looks.
	pollInterval = 200 * time.Millisecond
	// nodesInterval is how often the last phase does, which takes a request for each of
	// eight kinds, and a connection to each cluster.
	nodesInterval = 500 * time.Millisecond
)

// applyCluster installs the classes of the local hosts, then the user's file.
func (s *Session) applyCluster(ctx context.Context, step *progress.Step) error {
	step.Waitf("installing the ClusterClass and the pod network")
	local, err := localObjects()
	if err != nil {
		return err
	}
	for _, o := range local {
		if err := s.apply(ctx, &o); err != nil {
			return err
		}
	}
	classes, err := listClasses(ctx, s.client)
	if err != nil {
		return err
	}
	if err := checkClasses(s.Options.File, classes); err != nil {
		return err
	}
	for _, o := range s.Options.File.Objects {
		step.Waitf("applying %s %s", o.GetKind(), o.GetName())
		if err := s.applyUser(ctx, o); err != nil {
			return err
		}
	}
	step.Donef("%s", strings.Join(clusterNames(s.Options.File), ", "))
	return nil
}

// applyUser leaves a Cluster that exists alone when it comes from the default
// file: the user may have scaled it since.
func (s *Session) applyUser(ctx context.Context, o *unstructured.Unstructured) error {
	if s.Options.KeepExisting {
		existing := o.DeepCopy()
		err := s.client.Get(ctx, client.ObjectKeyFromObject(o), existing)
		if err == nil {
			s.noteVersion(existing)
			return nil
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return s.apply(ctx, o)
}

// apply brings an object to the plane; one that somebody else has changed is left alone,
// and the user told so.
func (s *Session) apply(ctx context.Context, o *unstructured.Unstructured) error {
	applied, err := readApplied(s.Instance.Path(appliedFile))
	if err != nil {
		return err
	}
	err = (&applier{client: s.client, applied: applied, force: s.Options.ForceConflicts}).apply(ctx, o)
	if changed := (*ChangedByOthersError)(nil); errors.As(err, &changed) {
		s.Progress.Note(fmt.Sprintf("Note: %v. It is left as it is; --force-conflicts applies it all the same.", changed))
		return nil
	}
	return err
}

// noteVersion tells that a version asked for does not change a Cluster that exists.
func (s *Session) noteVersion(existing *unstructured.Unstructured) {
	version, found, _ := unstructured.NestedString(existing.Object, "spec", "topology", "version")
	if found && s.Options.Version != "" && s.Options.Version != version {
		s.Progress.Note(fmt.Sprintf("Warning: Cluster %s is of Kubernetes %s already, --kubernetes-version %s is for a new one: to upgrade it, change its spec.topology.version",
			existing.GetName(), version, s.Options.Version))
	}
}

func clusterNames(f *File) []string {
	names := make([]string, 0, len(f.Clusters))
	for _, c := range f.Clusters {
		names = append(names, c.GetNamespace()+"/"+c.GetName())
	}
	return names
}

// localObjects are the ClusterClass for local hosts and the pod network, the
// latter wrapped for a ClusterResourceSet.
func localObjects() ([]unstructured.Unstructured, error) {
	objects, err := decode(templates.Local, "local/clusterclass.yaml")
	if err != nil {
		return nil, err
	}
	network, err := clusters.Flannel("")
	if err != nil {
		return nil, err
	}
	for _, o := range network {
		fields, err := clusters.Bare(o)
		if err != nil {
			return nil, err
		}
		objects = append(objects, unstructured.Unstructured{Object: fields})
	}
	return objects, nil
}

// waitForNodes shows each cluster until all its machines have ready Nodes.
func (s *Session) waitForNodes(ctx context.Context, step *progress.Step) error {
	steps := map[string]*progress.Step{}
	for _, c := range s.Options.File.Clusters {
		steps[c.GetNamespace()+"/"+c.GetName()] = step.Step(c.GetName())
	}
	return poll(ctx, nodesInterval, func() (bool, error) {
		now, err := status.Collect(ctx, s.client, status.Scope{}, s.nodes)
		if err != nil {
			return false, nil //nolint:nilerr // a server that is busy now is asked again
		}
		boots, err := s.boots(ctx)
		if err != nil {
			return false, err
		}
		ready, want, pending := 0, 0, false
		for _, c := range now.Clusters {
			show, ok := steps[c.Namespace+"/"+c.Name]
			if !ok {
				continue
			}
			distrustEarlierBoots(c.Nodes, boots)
			r, w := countNodes(c)
			ready, want = ready+r, want+w
			if r < w || w == 0 {
				pending = true
				show.Waitf("%d of %d%s", r, w, because(c))
			} else {
				show.Donef("%d of %d", r, w)
			}
		}
		if pending || len(now.Clusters) < len(steps) {
			step.Waitf("%d of %d nodes ready", ready, want)
			return false, nil
		}
		step.Donef("%d of %d nodes ready", ready, want)
		return true, nil
	})
}

// boots maps each local host that is on to its boot ID.
func (s *Session) boots(ctx context.Context) (map[string]string, error) {
	hosts, err := s.Hosts.List(ctx)
	if err != nil {
		return nil, err
	}
	boots := map[string]string{}
	for _, host := range hosts {
		boots[host.Name] = host.BootID
	}
	return boots, nil
}

// distrustEarlierBoots takes a Node for not ready until its kubelet has reported
// from the present boot of its host: after `slipway down` the API server still
// says what was true before, for as long as the node monitor's grace period.
func distrustEarlierBoots(nodes []status.Node, boots map[string]string) {
	for i := range nodes {
		if boot, local := boots[nodes[i].Name]; local && boot != nodes[i].BootID {
			nodes[i].Ready = false
		}
	}
}

func countNodes(c status.Cluster) (ready, want int) {
	want = int(c.ControlPlane.Desired)
	for _, pool := range c.Pools {
		want += int(pool.Desired)
	}
	for _, node := range c.Nodes {
		if node.Ready {
			ready++
		}
	}
	return ready, want
}

// because is why a cluster has not got all its nodes: what its machines wait for,
// or a Node that is there but not ready.
func because(c status.Cluster) string {
	if len(c.Waiting) > 0 {
		return ": " + c.Waiting[0]
	}
	for _, node := range c.Nodes {
		if !node.Ready {
			return ": waiting for the Node " + node.Name + " to be ready"
		}
	}
	return ""
}

// poll looks until done, an error, or the end of ctx.
func poll(ctx context.Context, every time.Duration, look func() (done bool, err error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		done, err := look()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
