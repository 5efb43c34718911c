package versions

import (
	"slices"
	"testing"

	"golang.org/x/mod/semver"
)

// The list is whole and in order, and each upgrade is to the next minor version.
func TestList(t *testing.T) {
	all, plane := All(), Plane()
	if len(all) < 2 || !slices.Contains(all, plane) {
		t.Fatalf("all are %v, the plane's is %v", all, plane)
	}
	for _, k := range all {
		if !semver.IsValid(k.Version) || !semver.IsValid(k.Etcd) || !semver.IsValid(k.CoreDNS) {
			t.Errorf("got %+v", k)
		}
	}
	pairs := Pairs()
	if len(pairs) != len(all)-1 || !slices.Contains(pairs, ToPlane()) || ToPlane().To != plane {
		t.Errorf("pairs are %v", pairs)
	}
	for _, p := range pairs {
		if semver.Compare(semver.MajorMinor(p.From.Version), semver.MajorMinor(p.To.Version)) >= 0 {
			t.Errorf("%s is no upgrade", p)
		}
	}
}
