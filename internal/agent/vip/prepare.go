package vip

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/internal/agent/link/kube"
)

// roleName names the Role and its binding.
const roleName = "slipway:control-plane-endpoint"

// prepare makes what is missing of the Lease and the right to it, as the
// cluster's administrator. Several hosts may do it at once.
func (s *LocalServer) prepare(ctx context.Context) error {
	server, err := s.server()
	if err != nil {
		return err
	}
	config, err := s.admin(server)
	if err != nil {
		return err
	}
	admin, err := kube.NewWorkload(config)
	if err != nil {
		return err
	}
	defer admin.Close()
	role, binding, lease := objects()
	if err := admin.ApplyRole(ctx, role); err != nil {
		return err
	}
	if err := admin.ApplyRoleBinding(ctx, binding); err != nil {
		return err
	}
	return admin.EnsureLease(ctx, lease)
}

func objects() (*rbacv1.Role, *rbacv1.RoleBinding, *coordinationv1.Lease) {
	meta := metav1.ObjectMeta{Namespace: LeaseNamespace, Name: roleName}
	role := &rbacv1.Role{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}, ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, ResourceNames: []string{LeaseName},
			Verbs: []string{"get", "update"},
		}},
	}
	binding := &rbacv1.RoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"}, ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: roleName},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: ElectionUser}},
	}
	// It has no holder: whoever is elected writes itself into it.
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: LeaseNamespace, Name: LeaseName}}
	return role, binding, lease
}
