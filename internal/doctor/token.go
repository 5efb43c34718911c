package doctor

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/snapshot"
)

// tokenNotice is the longest time before its end in which a token is reported; of one with a
// shorter life it is the last quarter.
const tokenNotice = time.Hour

var _ = register(Check{
	Layer:  Enrollment + 3,
	Name:   "TokenExpires",
	Effect: Remark,
	Means:  "a bootstrap token that may enroll more hosts has expired, or soon will: within the hour, and in the last quarter of its life",
	Remedy: "Create a new one with `slipway host token` if hosts still need it; otherwise delete the Secret.",
	find: func(s *Snapshot) []Finding {
		return each(s.Tokens, func(token *corev1.Secret) (Finding, bool) {
			expires, err := time.Parse(time.RFC3339, string(token.Data[bootstrapapi.BootstrapTokenExpirationKey]))
			namespace, ours := s.enrollsInto(token)
			if err != nil || !ours || expires.Sub(s.Now) > min(tokenNotice, expires.Sub(token.CreationTimestamp.Time)/4) {
				return none()
			}
			if uses, limited, err := host.ParseTokenUses(token.Annotations); err == nil && limited && uses.Exhausted() {
				return none()
			}
			f := at(corev1.SchemeGroupVersion, "Secret", token, Note).next("slipway host token -n %s", namespace)
			f.Message = "the bootstrap token expires at " + expires.UTC().Format(time.RFC3339) + " and may enroll more hosts until then"
			if !expires.After(s.Now) {
				f = f.since(expires).next("kubectl delete secret %s -n %s", token.Name, token.Namespace)
				f.Severity, f.Message = Warning, "the bootstrap token expired before it enrolled as many hosts as it may; `slipway host token -n "+snapshot.ShellWord(namespace)+"` creates another one"
			}
			return f, true
		})
	},
})

// enrollsInto is the namespace of the hosts that a bootstrap token enrolls. ours is false for
// the tokens of others, and for namespaces that are not in scope.
func (s *Snapshot) enrollsInto(token *corev1.Secret) (namespace string, ours bool) {
	groups := strings.Split(string(token.Data[bootstrapapi.BootstrapTokenExtraGroupsKey]), ",")
	if !slices.Contains(groups, infrav1.BootstrapGroup) {
		return "", false
	}
	for _, group := range groups {
		if rest, ok := strings.CutPrefix(group, infrav1.BootstrapGroupPrefix); ok {
			namespace, _, _ = strings.Cut(rest, ":")
			break
		}
	}
	return namespace, namespace != "" && (s.Scope.Namespace == "" || s.Scope.Namespace == namespace)
}
