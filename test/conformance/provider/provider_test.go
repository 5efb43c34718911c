package provider_test

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/test/conformance/judge"
	"github.com/slipway-dev/slipway/test/conformance/provider"
	"github.com/slipway-dev/slipway/test/logs"
)

// rulesAtOnce is how many rules are judged at once, unless -parallel says it. They
// wait for controllers most of the time.
const rulesAtOnce = "8"

func TestMain(m *testing.M) {
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		if err := parallel.Value.Set(rulesAtOnce); err != nil {
			panic(err)
		}
	}
	judge.Main(m, "../../../bin")
}

// TestConformance judges the rules of the gate under the contract version that is stored. The
// deep suite judges every rule, under the older version as well.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server, skipped by -short")
	}
	kit := judge.NewKit()
	scheme, err := provider.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	workload, err := judge.StartServer(scheme)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, workload) })
	rights := rights{used: map[judge.Right]bool{}}
	contracts := []provider.Contract{provider.V1Beta2}
	if level.IsDeep() {
		contracts = append(contracts, provider.V1Beta1)
	}
	for _, contract := range contracts {
		subject, err := provider.Slipway(t.Context(), kit, "slipway", []provider.Contract{contract}, append(judge.Elected("slipway-system"), "--logging-format=json", "--v=4")...)
		if err != nil {
			t.Fatal(err)
		}
		judgeAll(t, kit, subject, contract, workload, &rights)
	}
	if wholeSuite() && level.IsDeep() { // some rights are used under the older version alone
		rights.check(t)
	}
}

// judgeAll judges the rules of one contract version.
func judgeAll(t *testing.T, kit *judge.Kit, subject judge.Subject, contract provider.Contract, workload *judge.Plane, rights *rights) {
	t.Helper()
	dir := t.TempDir()
	plane, err := judge.Start(t.Context(), judge.Options{
		Kit: kit, Dir: dir, Scheme: workload.Client.Scheme(), Audit: true,
		Subjects: []judge.Subject{subject, judge.Core, judge.KubeadmBootstrap, judge.KubeadmControlPlane},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop(t, plane)
		logs.Check(t, filepath.Join(dir, subject.Name+".log"))
	}()
	suite, err := provider.NewSuite(contract, kit, plane, workload)
	if err != nil {
		t.Fatal(err)
	}
	t.Run(string(contract), func(t *testing.T) { provider.Run(t, suite) })
	provider.Check(t, suite)
	rights.add(t, plane, subject)
}

// wholeSuite is false when only some rules are judged.
func wholeSuite() bool { return flag.Lookup("test.run").Value.String() == "" }

func stop(t *testing.T, plane *judge.Plane) {
	t.Helper()
	if err := plane.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}
