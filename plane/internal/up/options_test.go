package up

import (
	"errors"
	"strings"
	"testing"
)

// fileOf is a cluster file with one Cluster of the class and one control plane.
func fileOf(t *testing.T, class string) *File {
	t.Helper()
	f, err := Parse("x.yaml", []byte(`apiVersion: cluster.x-k8s.io/v1beta2
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
		"none":                   {Options{NoHosts: true}, 0, ""},
		"none for a cluster":     {Options{File: four, NoHosts: true}, 0, "asks for 4 hosts, --hosts allows none: raise --hosts, or bring up a plane alone with --no-cluster"},
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

func TestChooseVersion(t *testing.T) {
	offered := []string{"v1.35.4", "v1.36.3", "v1.37.2"}
	for name, tc := range map[string]struct {
		wanted        string
		ownFile       bool
		offered       []string
		want, wantErr string
	}{
		"that of the plane by default": {"", false, offered, "v1.36.3", ""},
		"the newest without it":        {"", false, []string{"v1.36.2", "v1.36.4"}, "v1.36.4", ""},
		"an older one":                 {"v1.35.4", false, offered, "v1.35.4", ""},
		"a newer one":                  {"v1.37.2", false, offered, "v1.37.2", ""},
		"unknown":                      {"v1.34.0", false, offered, "", "--kubernetes-version: the node bundle of local hosts does not hold v1.34.0; choose one of v1.35.4, v1.36.3, v1.37.2, or build it in the source tree: make bundle KUBERNETES=v1.34.0"},
		"the user's file":              {"", true, offered, "v1.36.3", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{File: fileOf(t, "c"), KeepExisting: !tc.ownFile, Version: tc.wanted}
			err := o.chooseVersion(tc.offered)
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr {
					t.Errorf("got %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil || o.File.Clusters[0].Version != tc.want {
				t.Errorf("got %q, %v; want %q", o.File.Clusters[0].Version, err, tc.want)
			}
		})
	}
	old := Options{File: fileOf(t, "c")}
	if err := old.chooseVersion(offered[:1]); err == nil || !strings.Contains(err.Error(), "spec.topology.version") {
		t.Errorf("a file of another version: %v", err)
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
