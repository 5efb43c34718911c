// Package secretrights tells an administrator how to grant the manager its rights on the
// Secrets of a namespace, which a release can leave to them (config/rbac/secrets_binding.yaml).
//
// It imports nothing of this module.
package secretrights

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Role is the ClusterRole that has them, and the name of what binds it.
const Role = "slipway-manager-secrets"

// Retry is when to try again what was forbidden: RoleBindings of others are not watched.
const Retry = 10 * time.Second

// missing is how RBAC refuses what takes the role: to read or change a Secret, and to let
// others do so. Admission, or a namespace that ends, refuse in other words.
var missing = regexp.MustCompile(`[Uu]ser "([^"]+)" (?:cannot (?:get|patch|delete) resource "secrets"|\(groups=.*\) is attempting to grant RBAC permissions not currently held)`)

// Missing says how to grant what the API server refused in a namespace, empty when the error
// is about something else. Nothing of a Secret is in it.
func Missing(err error, namespace string) string {
	if !apierrors.IsForbidden(err) {
		return ""
	}
	user := missing.FindStringSubmatch(err.Error())
	if user == nil {
		return ""
	}
	subject := "--user " + user[1]
	if account, ok := strings.CutPrefix(user[1], "system:serviceaccount:"); ok {
		subject = "--serviceaccount " + account
	}
	return fmt.Sprintf("the manager has no right to the Secrets of namespace %s. An administrator grants it by: "+
		"kubectl create rolebinding %s -n %s --clusterrole %s %s", namespace, Role, namespace, Role, subject)
}
