package reconciler

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// SecretsRole is the ClusterRole with the rights on Secrets, and the name of what binds it.
const SecretsRole = "slipway-manager-secrets"

// SecretsRetry is when to try again what was forbidden: RoleBindings of others are not watched.
const SecretsRetry = 10 * time.Second

// refusedByRBAC is how RBAC refuses what takes the role: to read or change a Secret, and to let
// others do so. Admission, or a namespace that ends, refuse in other words.
var refusedByRBAC = regexp.MustCompile(`[Uu]ser "([^"]+)" (?:cannot (?:get|patch|delete) resource "secrets"|\(groups=.*\) is attempting to grant RBAC permissions not currently held)`)

// MissingSecretRights says how to grant what the API server refused in a namespace, empty when the error
// is about something else. Nothing of a Secret is in it.
func MissingSecretRights(err error, namespace string) string {
	if !apierrors.IsForbidden(err) {
		return ""
	}
	user := refusedByRBAC.FindStringSubmatch(err.Error())
	if user == nil {
		return ""
	}
	subject := "--user " + user[1]
	if account, ok := strings.CutPrefix(user[1], "system:serviceaccount:"); ok {
		subject = "--serviceaccount " + account
	}
	return fmt.Sprintf("the manager has no right to the Secrets of namespace %s. An administrator grants it by: "+
		"kubectl create rolebinding %s -n %s --clusterrole %s %s", namespace, SecretsRole, namespace, SecretsRole, subject)
}
