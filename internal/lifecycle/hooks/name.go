package hooks

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// maxRunName leaves room for the names of what the steps of a run create.
const maxRunName = 52

// call is what makes a run: the same call always finds the same run.
type call struct {
	cluster, policy string
	hook            lifecyclev1.HookName
	request         lifecyclev1.RunRequest
}

// is tells whether a run answers the call.
func (c call) is(run *lifecyclev1.LifecycleRun) bool {
	s := &run.Spec
	return s.ClusterName == c.cluster && s.PolicyName == c.policy && s.Hook == c.hook && s.Request.Versions() == c.request.Versions()
}

// runName returns the name of an attempt: a DNS label of at most 52 characters. It
// must not depend on the UID of the Cluster, which clusterctl move changes: the run
// that came along has to be in the way of a second one.
func (c call) runName(attempt int32) string {
	versions := c.request.Versions()
	sum := sha256.Sum256([]byte(strings.Join(append([]string{c.cluster, c.policy, string(c.hook)}, versions[:]...), "\x00")))
	suffix := fmt.Sprintf("-%s-%s-%d", kebab(c.hook), hex.EncodeToString(sum[:])[:8], attempt)
	cluster := strings.ReplaceAll(c.cluster, ".", "-")
	if room := max(maxRunName-len(suffix), 1); len(cluster) > room {
		cluster = strings.TrimRight(cluster[:room], "-")
	}
	return cluster + suffix
}

var humps = regexp.MustCompile(`([a-z])([A-Z])`)

// kebab turns BeforeClusterCreate into before-cluster-create.
func kebab(hook lifecyclev1.HookName) string {
	return strings.ToLower(humps.ReplaceAllString(string(hook), "$1-$2"))
}
