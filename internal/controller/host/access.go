package host

import (
	"context"
	"errors"
	"fmt"
	"maps"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"sigs.k8s.io/cluster-api/util/labels/format"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// RoleName is the name of the Role and of the RoleBinding of a host's agent.
func RoleName(hostName string) string { return "slipway-host-" + hostName }

// ensureLease makes the Lease the agent renews. The agent has no right to create
// one: a create can't be restricted to one name.
func (r *Reconciler) ensureLease(ctx context.Context, s *scope) (bool, error) {
	if s.lease != nil {
		return r.announce(ctx, s)
	}
	name := s.host.Name
	lease := &coordinationv1.Lease{ObjectMeta: named(s.host, name)}
	if err := own(r.Client, s.host, lease); err != nil {
		return false, err
	}
	if err := r.annotate(ctx, s.host, lease, true); err != nil {
		return false, err
	}
	if err := r.Client.Create(ctx, lease); err != nil && !apierrors.IsAlreadyExists(err) {
		return false, fmt.Errorf("create Lease %s: %w", name, err)
	}
	return true, nil
}

// announce tells the agent by its Lease what it has to know besides its operations. It
// writes only what changed: without a lock, since the agent renews all the time. It
// reads it with its next renewal.
func (r *Reconciler) announce(ctx context.Context, s *scope) (bool, error) {
	if s.lease == nil {
		return true, nil
	}
	before := s.lease.DeepCopy()
	if err := r.annotate(ctx, s.host, s.lease, s.facts.Connection.Connected); err != nil {
		return false, err
	}
	if maps.Equal(before.Annotations, s.lease.Annotations) {
		return true, nil
	}
	if err := r.Client.Patch(ctx, s.lease, client.MergeFrom(before)); err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("annotate Lease %s: %w", s.lease.Name, err)
	}
	return true, nil
}

// annotate writes into the Lease of a host, in memory, the interval of the heartbeat, where host
// bundles are, who signs hand-overs, and the one that is requested. Who signs is told only to an agent that reads
// it: see told. Without the right to read the key a host is served all the same: it cannot be
// moved, and is told who signs once the right is there.
func (r *Reconciler) annotate(ctx context.Context, h *infrav1.Host, lease *coordinationv1.Lease, read bool) error {
	if err := r.askInterval(ctx, lease); err != nil {
		return err
	}
	r.tellBundles(lease)
	handOver, problem, err := r.handOver(ctx, lease.Namespace)
	if err != nil {
		return err
	}
	signed := handOver != nil && len(handOver.Signature) > 0 && problem == ""
	if !signed {
		handOver = nil
	}
	key, err := r.signers.key(ctx, r.APIReader, lease.Namespace, handOver)
	if why := reconciler.MissingSecretRights(err, lease.Namespace); why != "" {
		tellForbidden(r.Recorder, h, "Serve", why)
	} else if err != nil {
		return err
	}
	if key != nil && read {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, infrav1.HandOverSignerAnnotation, host.EncodeSigner(public(key)))
	}
	if !signed {
		delete(lease.Annotations, infrav1.HandOverAnnotation)
		return nil
	}
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, infrav1.HandOverAnnotation, handOver.Revision())
	return nil
}

// tellBundles writes into a Lease, in memory, where host bundles are served.
func (r *Reconciler) tellBundles(lease *coordinationv1.Lease) {
	var server BundleServer
	if r.Bundles != nil {
		server = r.Bundles()
	}
	for key, value := range map[string]string{infrav1.HostBundlesAnnotation: server.URL, infrav1.HostBundlesCAHashAnnotation: server.CAHash} {
		if value == "" {
			delete(lease.Annotations, key)
			continue
		}
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, key, value)
	}
}

// told says whether the agent knows who signs hand-overs: its Lease says it, and the agent
// read that with a renewal. A Lease has it from its beginning or gets it while the agent
// renews; an agent that is away while a namespace gets its key is not told.
func told(lease *coordinationv1.Lease) bool {
	return lease.Annotations[infrav1.HandOverSignerAnnotation] != "" && lease.Spec.RenewTime != nil
}

// ensureRBAC gives the agent its host and its heartbeat. What of Secrets it may read
// is up to the SecretAccessReconciler.
func (r *Reconciler) ensureRBAC(ctx context.Context, s *scope) (bool, error) {
	return true, grantRole(ctx, r.Client, r.APIReader, s.host, RoleName(s.host.Name), agentRules(s.host))
}

// grantRole gives the agent of a host a Role of that name, which goes with the host.
func grantRole(ctx context.Context, c client.Client, live client.Reader, h *infrav1.Host, name string, rules []rbacv1.PolicyRule) error {
	role := &rbacv1.Role{ObjectMeta: named(h, name)}
	err := apply(ctx, c, live, h, role, func() error {
		role.Rules = rules
		return own(c, h, role)
	})
	if err != nil {
		return fmt.Errorf("apply Role %s: %w", name, err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: named(h, name)}
	err = apply(ctx, c, live, h, binding, func() error {
		if err := bind(ctx, c, binding); err != nil {
			return err
		}
		binding.Subjects = subjects(h)
		return own(c, h, binding)
	})
	if err != nil {
		return fmt.Errorf("apply RoleBinding %s: %w", name, err)
	}
	return nil
}

// apply makes a Role or RoleBinding, or brings it up to date. One that is there and that the
// cache does not have fails this time.
func apply(ctx context.Context, c client.Client, live client.Reader, h *infrav1.Host, o client.Object, mutate controllerutil.MutateFn) error {
	_, err := controllerutil.CreateOrUpdate(ctx, c, o, mutate)
	if apierrors.IsAlreadyExists(err) {
		return errors.Join(err, reclaim(ctx, c, live, o, func() bool { return metav1.IsControlledBy(o, h) }))
	}
	return err
}

// subjects is the agent of a host; nobody while the host has no identity yet.
func subjects(h *infrav1.Host) []rbacv1.Subject {
	if h.Spec.HostID == "" {
		return nil
	}
	return []rbacv1.Subject{{
		APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: infrav1.AgentUser(h.Namespace, h.Name, h.Spec.HostID),
	}}
}

// revokeRBAC takes the rights of the agent away at once: the garbage collector comes later.
func (r *Reconciler) revokeRBAC(ctx context.Context, h *infrav1.Host) error {
	binding := &rbacv1.RoleBinding{ObjectMeta: named(h, RoleName(h.Name))}
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, binding)); err != nil {
		return fmt.Errorf("delete RoleBinding %s: %w", binding.Name, err)
	}
	return nil
}

// revokeHandOver takes the agent of a Host that is deleted for good off the list of those
// that may read a hand-over, which outlives the Hosts that a move takes away. It reads past
// the cache: later nobody would do it.
func (r *Reconciler) revokeHandOver(ctx context.Context, h *infrav1.Host) error {
	if host.MovedAway(h) {
		return nil
	}
	binding := &rbacv1.RoleBinding{}
	if err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: infrav1.HandOverSecretName}, binding); err != nil {
		return client.IgnoreNotFound(err)
	}
	return removeReaders(ctx, r.Client, binding, subjects(h))
}

// agentRules are the rights of the agent of a host that never change.
func agentRules(h *infrav1.Host) []rbacv1.PolicyRule {
	this := []string{h.Name}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"hosts"}, ResourceNames: this, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"hosts/status"}, ResourceNames: this, Verbs: []string{"get", "patch", "update"}},
		{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, ResourceNames: this, Verbs: []string{"get", "patch", "update"}},
	}
}

func named(h *infrav1.Host, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: h.Namespace, Name: name}
}

// own ties an object to its host: it goes with the host, and the label brings it
// into the cache of the manager.
func own(c client.Client, h *infrav1.Host, o client.Object) error {
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[infrav1.HostLabel] = format.MustFormatValue(h.Name)
	o.SetLabels(labels)
	return controllerutil.SetControllerReference(h, o, c.Scheme())
}
