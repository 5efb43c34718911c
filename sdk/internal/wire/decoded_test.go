package wire

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestFootprintIsTrue decodes bodies that are small on the wire, as types that make
// much of them, and looks at the memory that is in use afterwards.
func TestFootprintIsTrue(t *testing.T) {
	many := func(part string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(part+",", 100_000), ",") + "]"
	}
	members := func(value string) string {
		var b strings.Builder
		for i := range 100_000 {
			fmt.Fprintf(&b, `,"%d":%s`, i, value)
		}
		return "{" + b.String()[1:] + "}"
	}
	type promoted struct {
		Promoted []clusterv1.MachineDeploymentTopology `json:"promoted"`
	}
	type holder struct {
		Maps     []map[string]string `json:"maps"`
		Map      map[string]string   `json:"map"`
		Any      any                 `json:"any"`
		Hidden   []embedsUnexported  `json:"hidden"`
		Deep     []embedsDeep        `json:"deep"`
		Pointers []*clusterv1.Cluster
		Ints     []int64 `json:"ints"`
		promoted
		Itself holdsItself `json:"itself"`
	}
	for _, body := range []string{
		`{"maps":` + many(`{}`) + `}`, `{"maps":` + many(`{"":""}`) + `}`, `{"maps":` + many(`null`) + `}`, `{"map":` + members(`""`) + `}`,
		`{"any":` + many(`0`) + `}`, `{"any":` + many(`1`) + `}`, `{"any":` + many(`""`) + `}`, `{"any":` + many(`[]`) + `}`, `{"any":` + many(`[0]`) + `}`,
		`{"any":` + many(`{}`) + `}`, `{"any":` + many(`{"":0}`) + `}`, `{"any":` + members(`1`) + `}`, `{"any":` + members(`{"a":[]}`) + `}`, `{"any":` + many(`null`) + `}`,
		`{"hidden":` + many(`{}`) + `}`, `{"hidden":` + many(`{"a":""}`) + `}`, `{"deep":` + many(`{}`) + `}`, `{"deep":` + many(`{"Y":""}`) + `}`,
		`{"deep":` + many(`{"a":""}`) + `}`, `{"Pointers":` + many(`{}`) + `}`, `{"itself":{"kids":` + many(`{}`) + `}}`, `{"itself":{"by":` + members(`{}`) + `}}`,
		`{"itself":{"by":` + members(`{"by":{"a":{}}}`) + `}}`, `{"ints":` + many(`1`) + `}`, `{"promoted":` + many(`{}`) + `}`,
	} {
		data := []byte(body)
		object := new(holder)
		held := &Body{budget: NewBudget(math.MaxInt64), data: data}
		before := inUse()
		if err := json.Unmarshal(data, object, optionsFor(object, reading, held.counted(t.Context()))); err != nil {
			t.Fatal(err)
		}
		used, needs := inUse()-before, held.reserved-int64(len(data))
		t.Logf("%-40.40s is %8d bytes, becomes %9d, reckoned %9d, guessed %9d", body, len(data), used, needs, needsOf(object).guess(data))
		// Other tests of the package leave and take some.
		const others = 1 << 20
		if used > needs+int64(len(data))+others {
			t.Errorf("%.40s… of %d bytes becomes %d, more than the %d that are reserved", body, len(data), used, needs+int64(len(data)))
		}
		if guessed := needsOf(object).guess(data); guessed < needs {
			t.Errorf("%.40s… is guessed to become %d, it is %d", body, guessed, needs)
		}
		runtime.KeepAlive(object)
		runtime.KeepAlive(data)
	}
}

func inUse() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
