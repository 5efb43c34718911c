package host

import (
	"context"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// SetupWithManager watches Hosts, their heartbeats and rights, and the machines
// and clusters that claim them.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "host")
	scheme := mgr.GetScheme()
	err := ctrl.NewControllerManagedBy(mgr).
		Named("host").
		WithOptions(options).
		For(&infrav1.Host{}, builder.WithPredicates(predicates.ResourceHasFilterLabel(scheme, log, r.WatchFilter))).
		Watches(&coordinationv1.Lease{}, r.onHeartbeat()).
		Owns(&rbacv1.Role{}).
		Owns(&rbacv1.RoleBinding{}).
		Watches(&infrav1.HostMachine{}, handler.EnqueueRequestsFromMapFunc(machineToHost), builder.WithPredicates(vanished())).
		Watches(&infrav1.Host{}, handler.EnqueueRequestsFromMapFunc(r.hostToTwins), builder.WithPredicates(identityChanged())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.clusterToHosts),
			builder.WithPredicates(predicates.ClusterPausedTransitions(scheme, log))).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.handOverToHosts), builder.WithPredicates(isHandOver())).
		Watches(&infrav1.HostApprovalPolicy{}, handler.EnqueueRequestsFromMapFunc(r.policyToHosts)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the Host controller: %w", err)
	}
	return nil
}

// SetupWithManager watches CertificateSigningRequests.
func (r *CSRReconciler) SetupWithManager(_ context.Context, mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hostcsr").
		WithOptions(options).
		For(&certificatesv1.CertificateSigningRequest{}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the enrollment controller: %w", err)
	}
	return nil
}

// SetupWithManager watches the operations of Hosts, and the lists of agents it keeps. Once, it
// looks for those that it can't see.
func (r *SecretAccessReconciler) SetupWithManager(_ context.Context, mgr ctrl.Manager, options controller.Options) error {
	if err := mgr.Add(manager.RunnableFunc(r.sweepOnce)); err != nil {
		return fmt.Errorf("set up the sweep of bootstrap Secrets: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("bootstrapsecret").
		WithOptions(options).
		Watches(&infrav1.Host{}, handler.EnqueueRequestsFromMapFunc(hostToSecret), builder.WithPredicates(otherSecret())).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(bindingToSecret)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of bootstrap Secrets: %w", err)
	}
	return nil
}

// SetupWithManager watches the hand-overs that operators request, who may read them, and the
// hosts that join a namespace, or gain or lose their approval, meanwhile.
func (r *HandOverReconciler) SetupWithManager(_ context.Context, mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("handover").
		WithOptions(options).
		For(&corev1.Secret{}, builder.WithPredicates(isHandOver())).
		Watches(&rbacv1.Role{}, handler.EnqueueRequestsFromMapFunc(toHandOver), builder.WithPredicates(isHandOver())).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(toHandOver), builder.WithPredicates(isHandOver())).
		Watches(&infrav1.Host{}, handler.EnqueueRequestsFromMapFunc(toHandOver), builder.WithPredicates(joined())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of hand-overs: %w", err)
	}
	return nil
}

// SetupWithManager watches HostLogRequests, and the Hosts that come, go or name some.
func (r *LogReconciler) SetupWithManager(_ context.Context, mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hostlogs").
		WithOptions(options).
		For(&infrav1.Host{}, builder.WithPredicates(namesLogs())).
		Watches(&infrav1.HostLogRequest{}, handler.EnqueueRequestsFromMapFunc(logToHost)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of HostLogRequests: %w", err)
	}
	return nil
}

func logToHost(_ context.Context, o client.Object) []reconcile.Request {
	request, ok := o.(*infrav1.HostLogRequest)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: request.Namespace, Name: request.Spec.HostName}}}
}

// namesLogs passes changes of which requests a Host names, and Hosts that come with such names or go.
func namesLogs() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return e.Object.GetAnnotations()[infrav1.LogRequestsAnnotation] != "" },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetAnnotations()[infrav1.LogRequestsAnnotation] != e.ObjectNew.GetAnnotations()[infrav1.LogRequestsAnnotation]
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

func toHandOver(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: infrav1.HandOverSecretName}}}
}

// isHandOver passes the Secrets that request a hand-over, of which the cache holds no others,
// and the lists of who may read them.
func isHandOver() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == infrav1.HandOverSecretName })
}

// joined passes the hosts that come into a namespace, those whose approval is given or
// withdrawn, and those that are being deleted.
func joined() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, isHost := e.ObjectOld.(*infrav1.Host)
			after, isStill := e.ObjectNew.(*infrav1.Host)
			return isHost && isStill && (host.Approved(before) != host.Approved(after) || deletedForGood(before) != deletedForGood(after))
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

func hostToSecret(_ context.Context, o client.Object) []reconcile.Request {
	h, ok := o.(*infrav1.Host)
	if !ok || bootstrapSecret(h) == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: h.Namespace, Name: bootstrapSecret(h)}}}
}

// bindingToSecret finds the lists that an earlier manager left, too.
func bindingToSecret(_ context.Context, o client.Object) []reconcile.Request {
	secret, ok := strings.CutPrefix(o.GetName(), secretAccessPrefix)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: secret}}}
}

// otherSecret passes updates that change which Secret a host names.
func otherSecret() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*infrav1.Host)
			after, ok2 := e.ObjectNew.(*infrav1.Host)
			return ok1 && ok2 && bootstrapSecret(before) != bootstrapSecret(after)
		},
	}
}

// vanished passes only machines that go: they may leave an orphaned claim.
func vanished() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// identityChanged passes what makes or ends a likeness between two hosts.
func identityChanged() predicate.Predicate {
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*infrav1.Host)
			after, ok2 := e.ObjectNew.(*infrav1.Host)
			return ok1 && ok2 && (before.Spec.HostID != after.Spec.HostID || before.Spec.AssignedNamespace != after.Spec.AssignedNamespace || before.Status.Inventory.MachineID != after.Status.Inventory.MachineID)
		},
	}
}

// hostToTwins maps a host to the others that share its identity. Of a change it sees
// both sides.
func (r *Reconciler) hostToTwins(ctx context.Context, o client.Object) []reconcile.Request {
	h, ok := o.(*infrav1.Host)
	if !ok {
		return nil
	}
	twins, err := r.twins(ctx, h)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Look for hosts with one identity")
		return nil
	}
	var requests []reconcile.Request
	for i := range twins {
		if twins[i].UID != h.UID {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&twins[i])})
		}
	}
	return requests
}

func machineToHost(_ context.Context, o client.Object) []reconcile.Request {
	machine, ok := o.(*infrav1.HostMachine)
	if !ok {
		return nil
	}
	namespace, name, _, ok := host.ParseProviderID(machine.Spec.ProviderID)
	if !ok || namespace != machine.Namespace {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

func (r *Reconciler) clusterToHosts(ctx context.Context, o client.Object) []reconcile.Request {
	return r.hostsWhere(ctx, o.GetNamespace(), func(h *infrav1.Host) bool {
		return h.Spec.Claim != nil && h.Spec.Claim.ClusterName == o.GetName()
	})
}

// policyToHosts maps a HostApprovalPolicy to the hosts that it could approve now.
func (r *Reconciler) policyToHosts(ctx context.Context, o client.Object) []reconcile.Request {
	return r.hostsWhere(ctx, o.GetNamespace(), func(h *infrav1.Host) bool { return h.Spec.Approval == infrav1.HostApprovalPending })
}

func (r *Reconciler) handOverToHosts(ctx context.Context, o client.Object) []reconcile.Request {
	return r.hostsWhere(ctx, o.GetNamespace(), func(*infrav1.Host) bool { return true })
}

func (r *Reconciler) hostsWhere(ctx context.Context, namespace string, wanted func(*infrav1.Host) bool) []reconcile.Request {
	return reconciler.Requests(ctx, r.Client, &infrav1.HostList{}, wanted, client.InNamespace(namespace))
}
