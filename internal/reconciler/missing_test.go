package reconciler_test

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/slipway-dev/slipway/internal/reconciler"
)

func TestMissing(t *testing.T) {
	forbidden := func(resource, why string) error {
		return fmt.Errorf("do it: %w", apierrors.NewForbidden(corev1.Resource(resource), "name", errors.New(why)))
	}
	const told = "the manager has no right to the Secrets of namespace tenant. An administrator grants it by: " +
		"kubectl create rolebinding slipway-manager-secrets -n tenant --clusterrole slipway-manager-secrets "
	const account = "system:serviceaccount:slipway-system:slipway-manager"
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"read":        {forbidden("secrets", `User "`+account+`" cannot get resource "secrets" in API group "" in the namespace "tenant"`), told + "--serviceaccount slipway-system:slipway-manager"},
		"of a person": {forbidden("secrets", `User "max" cannot patch resource "secrets" in API group "" in the namespace "tenant"`), told + "--user max"},
		"escalation": {forbidden("roles", `user "`+account+`" (groups=["system:serviceaccounts" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:`+"\n{}"),
			told + "--serviceaccount slipway-system:slipway-manager"},
		"admission":      {forbidden("secrets", `ValidatingAdmissionPolicy 'a' with binding 'a' denied request: no`), ""},
		"another right":  {forbidden("hosts", `User "max" cannot get resource "hosts" in API group "" in the namespace "tenant"`), ""},
		"an ending":      {forbidden("roles", `unable to create new content in namespace tenant because it is being terminated`), ""},
		"another answer": {apierrors.NewNotFound(corev1.Resource("secrets"), "name"), ""},
		"nothing":        {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reconciler.MissingSecretRights(tc.err, "tenant"); got != tc.want {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
		})
	}
}
