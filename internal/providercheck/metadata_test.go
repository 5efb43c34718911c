package providercheck_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"

	"github.com/slipway-dev/slipway/internal/providercheck"
)

// TestMetadataReadings holds that an error is found in metadata.yaml where clusterctl's own code fails with it, or
// finds no series of the release that core works with, and nowhere else; and that each rule that is named finds it.
func TestMetadataReadings(t *testing.T) {
	const head = "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\n"
	const series = "releaseSeries:\n  - major: 0\n    minor: 1\n    contract: v1beta2\n"
	for _, c := range []struct {
		name, text string
		// rule finds something; empty for a file that nothing is wrong with.
		rule string
	}{
		{"as it should be", head + series, ""},
		{"a byte order mark", "\ufeff" + head + series, ""},
		{"a separator first", "---\n" + head + series, ""},
		{"a comment first", "# c\n---\n" + head + series, ""},
		{"an empty document first", "---\n---\n" + head + series, "metadata-type"},
		{"an end", head + series + "...\n", ""},
		{"a separator last", head + series + "---\n", ""},
		{"the same again", head + series + "---\n" + head + series, "metadata-document"},
		{"something else first", "apiVersion: v1\nkind: A\n---\n" + head + series, "metadata-document"},
		{"no YAML last", head + series + "---\n- a: b: c\n", "metadata-document"},
		{"ends of lines of Windows", strings.ReplaceAll(head+series, "\n", "\r\n"), ""},
		{"JSON", `{"apiVersion":"clusterctl.cluster.x-k8s.io/v1alpha3","kind":"Metadata","releaseSeries":[{"major":0,"minor":1,"contract":"v1beta2"}]}`, ""},
		{"nothing", "", "metadata-type"},
		{"a comment alone", "# c\n", "metadata-type"},
		{"no series", head, "metadata-series"},
		{"an empty list", head + "releaseSeries: []\n", "metadata-series"},
		{"no list", head + "releaseSeries:\n  major: 0\n", "metadata-type"},
		{"no apiVersion", strings.TrimPrefix(head, "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\n") + series, "metadata-type"},
		{"no kind", strings.TrimSuffix(head, "kind: Metadata\n") + series, "metadata-kind"},
		{"another kind", strings.Replace(head, "Metadata", "metadata", 1) + series, "metadata-type"},
		{"no major", head + "releaseSeries:\n  - minor: 1\n    contract: v1beta2\n", ""},
		{"a text as a number", head + strings.Replace(series, "major: 0", `major: "0"`, 1), "metadata-type"},
		{"a fraction of nothing", head + strings.Replace(series, "minor: 1", "minor: 1.0", 1), "yaml-value"},
		{"a fraction", head + series + "  - {major: 1, minor: 1.5, contract: v1beta2}\n", "metadata-type"},
		{"octal", head + strings.Replace(series, "minor: 1", "minor: 01", 1), "yaml-value"},
		{"a large number", head + series + "  - {major: 4294967296, minor: 1, contract: v1beta2}\n", "metadata-type"},
		{"a negative number", head + series + "  - {major: -1, minor: 1, contract: v1beta2}\n", ""},
		{"no contract", head + strings.Replace(series, "    contract: v1beta2\n", "", 1), "metadata-series"},
		{"names in capitals", head + "releaseSeries:\n  - {Major: 0, Minor: 1, Contract: v1beta2}\n", "metadata-series"},
		{"a list in capitals", head + "R" + series[1:], "metadata-series"},
		{"a contract twice", head + series + "    contract: v1beta2\n", "yaml-repeated"},
		{"a list twice", head + "releaseSeries:\n  - {major: 7, minor: 1, contract: v1beta2}\n" + series, "yaml-repeated"},
		{"a list twice, the wrong one last", head + series + "releaseSeries:\n  - {major: 7, minor: 1, contract: v1beta2}\n", "yaml-repeated"},
		{"a series twice", head + series + "  - {major: 0, minor: 1, contract: v1beta1}\n", "metadata-series-once"},
		{"a merge", head + "releaseSeries:\n  - <<: {major: 0, minor: 1, contract: v1beta2}\n", ""},
		{"a variable", head + strings.Replace(series, "v1beta2", "${CONTRACT:=v1beta2}", 1), "metadata-series"},
		{"a variable as a number", head + strings.Replace(series, "major: 0", "major: ${MAJOR}", 1), "metadata-type"},
		{"a directive", "%YAML 1.2\n---\n" + head + series, "file-readable"},
		{"a name that is a number", head + "metadata: {name: 7}\n" + series, "metadata-type"},
		{"something more", head + series + "more: 1\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := plant(t, violation{})
			if err := os.WriteFile(filepath.Join(dir, metadata), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := providercheck.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			findings := slices.DeleteFunc(providercheck.Check(r), func(f providercheck.Finding) bool { return f.File != metadata })
			isError := slices.ContainsFunc(findings, func(f providercheck.Finding) bool { return f.Level == providercheck.Must })
			if works, why := clusterctlWorks(t, c.text); works == isError {
				t.Errorf("clusterctl works with it: %t (%v), and the findings are %+v", works, why, findings)
			}
			isRule := func(f providercheck.Finding) bool { return f.Rule == c.rule }
			if c.rule == "" && len(findings) > 0 || c.rule != "" && !slices.ContainsFunc(findings, isRule) {
				t.Errorf("want %q, and the findings are %+v", c.rule, findings)
			}
		})
	}
}

// clusterctlWorks says whether clusterctl can read metadata.yaml, and finds the contract of v0.1.0 in it.
func clusterctlWorks(t *testing.T, text string) (bool, error) {
	t.Helper()
	configuration, err := config.New(t.Context(), "", config.InjectReader(config.NewMemoryReader()))
	if err != nil {
		t.Fatal(err)
	}
	const version = "v0.1.0"
	provider := config.NewProvider("foo", "https://example.com/"+components, clusterctlv1.InfrastructureProviderType)
	files := repository.NewMemoryRepository().WithPaths("", components).WithDefaultVersion(version).WithFile(version, components, nil).WithFile(version, metadata, []byte(text))
	client, err := repository.New(t.Context(), provider, configuration, repository.InjectRepository(files))
	if err != nil {
		t.Fatal(err)
	}
	read, err := client.Metadata(version).Get(t.Context())
	if err != nil {
		return false, err
	}
	for _, s := range read.ReleaseSeries {
		if s.Major == 0 && s.Minor == 1 { // clusterctl takes the first one
			return s.Contract == "v1beta2", nil
		}
	}
	return false, nil
}
