package hostmachinepool

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Members of a pool have names that the API takes, wherever the pool's name has its dots and dashes.
func TestNamesOfMembers(t *testing.T) {
	pools := []string{"a", "pool", strings.Repeat("a", 253)}
	for at := 1; at < 70; at++ {
		pools = append(pools, strings.Repeat("a", at)+".rack1", strings.Repeat("a", at)+"--rack1")
	}
	for _, pool := range pools {
		name := memberPrefix(pool) + "x7k2p"
		if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 || len(validation.IsValidLabelValue(name)) > 0 || !strings.HasPrefix(pool, strings.TrimSuffix(memberPrefix(pool), "-")) {
			t.Errorf("a member of %s is called %s: %v", pool, name, errs)
		}
	}
}
