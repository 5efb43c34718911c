package providercheck

import (
	"fmt"
	"regexp"
	"strings"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// nameFormat is section 1.2: lower-case letters, digits and '-', beginning and
// ending with a letter or digit.
var nameFormat = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

var repositoryRules = []Rule{
	unreadable.with(func(*Release, report) {}),
	{
		ID: "repository-version", Whole: true, Level: Must, Contract: "clusterctl provider contract, 1.5",
		Title:  "The directory of a release is named by a semantic version",
		Remedy: "rename the directory, for example to v0.1.0",
		check: func(r *Release, found report) {
			if _, err := utilversion.ParseSemantic(r.Version); err != nil {
				found(place{}, fmt.Sprintf("directory %q is not a semantic version", r.Version))
			}
		},
	},
	{
		ID: "repository-label", Whole: true, Level: Must, Contract: "clusterctl provider contract, 1.2 and 1.5",
		Title:  "The directory above is the provider's label: its type and its name",
		Remedy: "name it <type>-<name>, for example infrastructure-slipway; the name has at most 63 lower-case letters, digits and '-'",
		check: func(r *Release, found report) {
			switch {
			case r.Type == "":
				found(place{}, fmt.Sprintf("directory %q does not begin with a type of provider", r.Label))
			case !nameFormat.MatchString(r.Name) || len(r.Name) > 63:
				found(place{}, fmt.Sprintf("provider name %q is malformed or too long", r.Name))
			}
		},
	},
	{
		ID: "components-file", Whole: true, Level: Must, Contract: "clusterctl provider contract, 1.1 and 3",
		Title:  "There is one components file",
		Remedy: "release one file <type>-components.yaml, for example infrastructure-components.yaml",
		check: func(r *Release, found report) {
			if len(r.Components) == 0 {
				found(place{}, "there is no components file")
			}
		},
	},
	{
		ID: "components-alternative", Whole: true, Level: May, Contract: "clusterctl provider contract, 3",
		Title:  "There is one components file",
		Remedy: "check the other one by itself: slipway check provider FILE; clusterctl reads the file that its configuration names",
		check: func(r *Release, found report) {
			others := r.Alternatives
			if len(r.Components) > 1 {
				others = append(others, r.Components[1:]...)
			}
			for _, f := range others {
				found(place{file: f.Name}, fmt.Sprintf("the components are in %s, too", r.Components[0].Name))
			}
		},
	},
	{
		ID: "components-name", Whole: true, Level: Should, Contract: "clusterctl provider contract, 3.1",
		Title:  "The components file is named by the provider's type",
		Remedy: "name it <type>-components.yaml; under another name users have to give its URL in their configuration of clusterctl",
		check: func(r *Release, found report) {
			want := componentsFile(r.Type)
			for _, f := range r.Components {
				if want != "" && f.Name != want {
					found(place{file: f.Name}, fmt.Sprintf("the components of a provider of type %s are in %s", r.Type, want))
				}
			}
		},
	},
	{
		ID: "metadata-file", Whole: true, Level: Must, Contract: "clusterctl provider contract, 1.1 and 2",
		Title:  "There is a metadata.yaml",
		Remedy: "release metadata.yaml with a contract for each release series",
		check: func(r *Release, found report) {
			if len(r.Metadata) == 0 {
				found(place{}, "there is no metadata.yaml")
			}
		},
	},
	{
		ID: "template-default", Whole: true, Level: Should, Contract: "clusterctl provider contract, 1.1 and 4.1",
		Title:  "An infrastructure provider has a default cluster template",
		Remedy: "release cluster-template.yaml: it is what clusterctl generate cluster takes without --flavor",
		check: func(r *Release, found report) {
			if r.Type != clusterctlv1.InfrastructureProviderType {
				return
			}
			for _, f := range r.Templates {
				if f.Name == defaultTemplate {
					return
				}
			}
			found(place{}, "there is no cluster-template.yaml")
		},
	},
	{
		ID: "file-name", Whole: true, Level: Should, Contract: "clusterctl provider contract, 3.1, 4.1 and 5.1",
		Title:  "Every YAML file has a name that clusterctl looks for",
		Remedy: "name it cluster-template-<flavor>.yaml or clusterclass-<name>.yaml, or leave it out of the release",
		check: func(r *Release, found report) {
			for _, f := range r.Others {
				found(place{file: f.Name}, "clusterctl never reads a file of this name")
			}
		},
	},
}

// with completes a rule that is shared with Load.
func (r Rule) with(check func(*Release, report)) Rule {
	r.check = check
	return r
}

// componentsFile is the name section 3.1 recommends for a type.
func componentsFile(t clusterctlv1.ProviderType) string {
	switch t {
	case "":
		return ""
	case clusterctlv1.CoreProviderType:
		return "core-components.yaml"
	default:
		return strings.TrimSuffix(clusterctlv1.ManifestLabel("", t), "-") + "-components.yaml"
	}
}
