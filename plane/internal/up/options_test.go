package up

import (
	"errors"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/plane/internal/clusterfile"
)

// fileOf is a cluster file with one Cluster of the class and one control plane.
func fileOf(t *testing.T, class string) *clusterfile.File {
	t.Helper()
	f, err := clusterfile.Parse("x.yaml", []byte(`apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: a}
spec:
  topology:
    classRef: {name: `+class+`}
    version: v1.36.3
    workers: {machinePools: [{class: w, name: p, replicas: 3}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCompleteCountsHosts(t *testing.T) {
	four := fileOf(t, "c")
	for name, tc := range map[string]struct {
		in      Options
		want    int
		wantErr string
	}{
		"no cluster":             {Options{}, spareHosts, ""},
		"what the file needs":    {Options{File: four}, 4 + spareHosts, ""},
		"exactly enough":         {Options{File: four, Hosts: 4}, 4, ""},
		"more than needed":       {Options{File: four, Hosts: 9}, 9, ""},
		"too few":                {Options{File: four, Hosts: 3}, 0, "x.yaml asks for 4 hosts, --hosts allows 3"},
		"as many as there are":   {Options{Hosts: 189}, 189, ""},
		"more than there can be": {Options{Hosts: 190}, 0, "190 hosts are too many"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.in.Complete()
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("Complete() = %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil || tc.in.Hosts != tc.want {
				t.Errorf("Hosts = %d, %v; want %d", tc.in.Hosts, err, tc.want)
			}
		})
	}
	var few *NotEnoughHostsError
	if err := (&Options{File: four, Hosts: 1}).Complete(); !errors.As(err, &few) || few.Need != 4 || few.Have != 1 {
		t.Errorf("got %#v", err)
	}
}

func TestDefaultFileUsesAClassThatUpBrings(t *testing.T) {
	f, err := DefaultFile()
	if err != nil {
		t.Fatal(err)
	}
	classes, err := localClasses()
	if err != nil {
		t.Fatal(err)
	}
	if err := checkClasses(f, classes); err != nil {
		t.Error(err)
	}
}
