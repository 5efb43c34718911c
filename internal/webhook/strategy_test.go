package webhook_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/slipway-dev/slipway/internal/testenv"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// A strategy that could never replace a machine is refused, with the field that is
// wrong.
func TestStrategyIsValidated(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	number, percent := func(n int) *intstr.IntOrString { return ptr.To(intstr.FromInt(n)) }, func(s string) *intstr.IntOrString { return ptr.To(intstr.FromString(s)) }
	for name, tc := range map[string]struct {
		strategy infrav1.HostMachinePoolStrategy
		// want is the field the error names; "" accepts.
		want string
	}{
		"default":                     {infrav1.HostMachinePoolStrategy{Type: infrav1.RolloutTypeRollingUpdate}, ""},
		"numbers":                     {infrav1.HostMachinePoolStrategy{MaxSurge: number(2), MaxUnavailable: number(0)}, ""},
		"percentages":                 {infrav1.HostMachinePoolStrategy{MaxSurge: percent("25%"), MaxUnavailable: percent("100%")}, ""},
		"surge above the pool":        {infrav1.HostMachinePoolStrategy{MaxSurge: percent("200%")}, ""},
		"both 0":                      {infrav1.HostMachinePoolStrategy{MaxSurge: number(0), MaxUnavailable: percent("0%")}, "spec.strategy.maxUnavailable"},
		"surge 0 alone":               {infrav1.HostMachinePoolStrategy{MaxSurge: number(0)}, "spec.strategy.maxSurge"},
		"surge 0 in place":            {infrav1.HostMachinePoolStrategy{Type: infrav1.RolloutTypeInPlace, MaxSurge: number(0)}, ""},
		"negative":                    {infrav1.HostMachinePoolStrategy{MaxSurge: number(-1)}, "spec.strategy.maxSurge"},
		"no percentage":               {infrav1.HostMachinePoolStrategy{MaxUnavailable: percent("1")}, "spec.strategy.maxUnavailable"},
		"above 100%":                  {infrav1.HostMachinePoolStrategy{MaxUnavailable: percent("101%")}, "spec.strategy.maxUnavailable"},
		"in place, none unavailable":  {infrav1.HostMachinePoolStrategy{Type: infrav1.RolloutTypeInPlace, MaxUnavailable: number(0)}, "spec.strategy.maxUnavailable"},
		"in place":                    {infrav1.HostMachinePoolStrategy{Type: infrav1.RolloutTypeInPlace}, ""},
		"fall-back, none unavailable": {infrav1.HostMachinePoolStrategy{NoSpareHost: infrav1.NoSpareHostInPlace}, "spec.strategy.noSpareHost"},
		"fall-back":                   {infrav1.HostMachinePoolStrategy{NoSpareHost: infrav1.NoSpareHostInPlace, MaxUnavailable: number(1)}, ""},
		"unknown type":                {infrav1.HostMachinePoolStrategy{Type: "Recreate"}, "spec.strategy.type"},
		"unknown delete policy":       {infrav1.HostMachinePoolStrategy{DeletePolicy: "First"}, "spec.strategy.deletePolicy"},
		"no deadline":                 {infrav1.HostMachinePoolStrategy{ProgressDeadlineSeconds: ptr.To[int32](0)}, "spec.strategy.progressDeadlineSeconds"},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &infrav1.HostMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "pool-"}}
			pool.Spec.Strategy = tc.strategy
			template := &infrav1.HostMachinePoolTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "pool-"}}
			template.Spec.Template.Spec.Strategy = tc.strategy
			expect(t, env.Client.Create(ctx, pool), tc.want)
			expect(t, env.Client.Create(ctx, template), strings.Replace(tc.want, "spec.", "spec.template.spec.", 1))
		})
	}
}
