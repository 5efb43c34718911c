package logs

import (
	"regexp"
	"strings"
	"unicode"
)

// names are the keys of what every line is joined by, by the words that others use for it:
// without their capitals, and without what separates words.
var names = map[string]string{
	"error": "err", "cause": "err",
	"host": "Host", "hostname": "Host", "node": "Node", "nodename": "Node",
	"claim": "claim", "claimid": "claim", "operation": "operation", "operationid": "operation", "op": "operation",
	"cluster": "Cluster", "clustername": "Cluster", "machine": "Machine", "machinename": "Machine",
	"hostmachine": "HostMachine", "hostmachinename": "HostMachine", "hostcluster": "HostCluster", "hostmachinepool": "HostMachinePool",
	"policy": "LifecyclePolicy", "policyname": "LifecyclePolicy", "lifecyclepolicy": "LifecyclePolicy",
	"run": "LifecycleRun", "runname": "LifecycleRun", "lifecyclerun": "LifecycleRun",
	"phase": "phase", "step": "step", "reason": "reason",
}

var lowerCamel = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)

// IsKind says whether a key is the name of a kind, so that its value is an object.
func IsKind(key string) bool { return key != "" && unicode.IsUpper(rune(key[0])) }

// Key says what is wrong with a key; empty when nothing is. Objects are named by their kind.
func Key(key string) string {
	flat := strings.ToLower(strings.NewReplacer(".", "", "-", "", "_", "", "/", "", " ", "").Replace(key))
	// Host.name, host_id and the like begin with what has a key.
	for _, word := range []string{flat, strings.TrimSuffix(flat, "name"), strings.TrimSuffix(flat, "namespace")} {
		if name, ok := names[word]; ok && key != name {
			return "has the name " + name + " in docs/observability.md"
		}
	}
	if !IsKind(key) && !lowerCamel.MatchString(key) {
		return "write it in lowerCamelCase"
	}
	return ""
}
