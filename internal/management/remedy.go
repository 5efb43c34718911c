package management

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/slipway-dev/slipway/internal/snapshot"
)

// credentialPlugin begins the text of client-go's error of a program that a kubeconfig names for a
// credential; it has no type.
const credentialPlugin = "getting credentials: "

// Explain adds to an error of a command what only the cluster as a whole can tell: which
// one it was, and what to do. Errors that have nothing to do with the cluster come back
// as they are.
func (c *Cluster) Explain(err error) error {
	var unreachable *url.Error
	var other *NotManagementError
	rights := missingRights(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotRunning), errors.As(err, &other):
		return err
	case len(rights) > 0:
		return fmt.Errorf("%s: %w%s", c.Name, err, grant(rights))
	case meta.IsNoMatchError(err):
		return fmt.Errorf("%s lacks a part of Slipway or of Cluster API: %w; `clusterctl init --infrastructure slipway` installs them", c.Name, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s does not accept your credential: %w; renew it, or name another kubeconfig with --kubeconfig", c.Name, err)
	case strings.Contains(err.Error(), credentialPlugin):
		return fmt.Errorf("cannot get your credential for %s by the program in the kubeconfig: %w", c.Name, err)
	case errors.As(err, &unreachable):
		return fmt.Errorf("%s does not answer: %w", c.Name, err)
	default:
		return err
	}
}

// grant is the commands with which an administrator gives the rights.
func grant(rights []Right) string {
	type role struct{ namespace, verb, name string }
	var roles []role
	resources := map[role]string{}
	everywhere := false
	for _, r := range rights {
		key := role{r.Namespace, r.Verb, r.Name}
		if !slices.Contains(roles, key) {
			roles = append(roles, key)
		}
		resources[key] += " --resource=" + r.Resource.String()
		everywhere = everywhere || r.Namespaced && r.Namespace == ""
	}
	var b strings.Builder
	if everywhere {
		b.WriteString("\nWhere your rights are those of one namespace, name it with -n.")
	}
	b.WriteString("\nAsk a cluster administrator to run:")
	for _, r := range roles {
		kind, namespace, name := "clusterrole", "", "slipway-"+r.verb
		if r.namespace != "" {
			kind, namespace = "role", " -n "+r.namespace
		}
		flags := " --verb=" + r.verb + resources[r]
		if r.name != "" {
			name += "-" + r.name
			flags += " --resource-name=" + r.name
		}
		fmt.Fprintf(&b, "\n  kubectl create %s %s%s%s", kind, name, namespace, flags)
		fmt.Fprintf(&b, "\n  kubectl create %sbinding %s%s --%s=%s %s", kind, name, namespace, kind, name, subject(rights[0].User))
	}
	return b.String()
}

// subject is the flag of kubectl that names a user.
func subject(user string) string {
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		return "--serviceaccount=" + account
	}
	if user == "" {
		user = "USER"
	}
	return "--user=" + snapshot.ShellWord(user)
}
