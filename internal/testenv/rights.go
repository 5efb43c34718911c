package testenv

import (
	"context"
	"io/fs"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Grant gives a user the ClusterRoles of files of the release, and nothing else. The
// authorizer learns of it a moment later.
func (e *Env) Grant(ctx context.Context, user string, release fs.ReadFileFS, files ...string) error {
	for _, file := range files {
		data, err := release.ReadFile(file)
		if err != nil {
			return err
		}
		role := &rbacv1.ClusterRole{}
		if err := yaml.UnmarshalStrict(data, role); err != nil {
			return err
		}
		for _, o := range []client.Object{role, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}} {
			if err := e.Client.Create(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}
