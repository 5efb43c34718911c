package providercheck

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
)

// contracts that Cluster API has had, the newest last.
var contracts = []string{"v1alpha2", "v1alpha3", "v1alpha4", "v1beta1", "v1beta2"}

// servedContracts are those that Cluster API v1.14 works with.
var servedContracts = contracts[3:]

var metadataRules = []Rule{
	{
		ID: "metadata-type", Level: Must, Contract: "clusterctl provider contract, 2",
		Title:  "metadata.yaml is a Metadata of clusterctl",
		Remedy: "set apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3 and kind: Metadata, in the first document, with numbers as major and minor",
		check: func(r *Release, found report) {
			for _, f := range r.Metadata {
				switch {
				case f.broken != nil:
				case len(f.Objects) == 0:
					found(place{file: f.Name}, "the first document, which clusterctl reads, is empty")
				default:
					checkMetadata(f.Objects[0], found)
				}
			}
		},
	},
	{
		ID: "metadata-document", Level: Should, Contract: "clusterctl provider contract, 2",
		Title:  "metadata.yaml holds one document",
		Remedy: "remove the others: clusterctl reads the first one",
		check: func(r *Release, found report) {
			for _, o := range objects(r.Metadata) {
				if o.dropped > 0 {
					found(place{file: o.File.Name, line: o.dropped, object: o.at().object}, "clusterctl does not read what stands behind the first document")
				}
			}
		},
	},
	{
		ID: "metadata-kind", Level: Should, Contract: "clusterctl provider contract, 2",
		Title:  "metadata.yaml tells its kind",
		Remedy: "add kind: Metadata; clusterctl reads the file without, other tools do not",
		check: func(r *Release, found report) {
			for _, o := range objects(r.Metadata) {
				if o.Kind() == "" {
					found(o.at("kind"), "the document has no kind")
				}
			}
		},
	},
	{
		ID: "metadata-series", Level: Must, Contract: "clusterctl provider contract, 2",
		Title:  "metadata.yaml names the contract of this release's series",
		Remedy: "add an entry of releaseSeries with the release's major and minor version",
		check:  checkSeries,
	},
	{
		ID: "metadata-series-once", Level: Should, Contract: "clusterctl provider contract, 2",
		Title:  "Every series has one contract",
		Remedy: "remove the entry that is wrong: clusterctl takes the first one",
		check: func(r *Release, found report) {
			for _, o := range objects(r.Metadata) {
				seen := map[string]bool{}
				for i, series := range list(o.Fields, "releaseSeries") {
					name := seriesName(series)
					if seen[name] {
						found(o.at("releaseSeries", fmt.Sprint(i)), fmt.Sprintf("series %s is there twice", name))
					}
					seen[name] = true
				}
			}
		},
	},
	{
		ID: "contract-ending", Level: Should, Contract: "Cluster API book, versions",
		Title:  "A release does not rely on contract v1beta1, which Cluster API drops in April 2027",
		Remedy: "implement contract v1beta2, and label the CRDs cluster.x-k8s.io/v1beta2: Cluster API v1.16 reads no other",
		check: func(r *Release, found report) {
			if r.now.Before(endOfV1beta1) {
				checkEnd(r, found)
			}
		},
	},
	{
		ID: "contract-ended", Level: Must, Contract: "Cluster API book, versions",
		Title:  "Since April 2027, a release does not rely on contract v1beta1",
		Remedy: "implement contract v1beta2, and label the CRDs cluster.x-k8s.io/v1beta2: Cluster API v1.16 reads no other",
		check: func(r *Release, found report) {
			if !r.now.Before(endOfV1beta1) {
				checkEnd(r, found)
			}
		},
	},
	{
		ID: "metadata-contract", Level: Should, Contract: "clusterctl provider contract, 2",
		Title:  "Every contract is one that Cluster API has",
		Remedy: "use the contract's own name: " + strings.Join(servedContracts, " or "),
		check: func(r *Release, found report) {
			for _, o := range objects(r.Metadata) {
				for i, series := range list(o.Fields, "releaseSeries") {
					if contract := text(series, "contract"); !slices.Contains(contracts, contract) {
						found(o.at("releaseSeries", fmt.Sprint(i), "contract"), fmt.Sprintf("there is no contract %q", contract))
					}
				}
			}
		},
	},
}

// metadataDecoder decodes the file as clusterctl does.
var metadataDecoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	utilruntime.Must(clusterctlv1.AddToScheme(scheme))
	return serializer.NewCodecFactory(scheme).UniversalDecoder()
}()

func checkMetadata(o *Object, found report) {
	if o.Kind() != "Metadata" && o.Kind() != "" || text(o.Fields, "apiVersion") != clusterctlv1.GroupVersion.String() {
		found(o.at("apiVersion"), fmt.Sprintf("apiVersion %q, kind %q", text(o.Fields, "apiVersion"), o.Kind()))
	} else if err := runtime.DecodeInto(metadataDecoder, o.File.Raw, &clusterctlv1.Metadata{}); err != nil {
		found(o.at("releaseSeries"), err.Error())
	}
}

// endOfV1beta1 is when Cluster API v1.16 is expected, which no longer works with contract v1beta1
// (Cluster API book, versions).
var endOfV1beta1 = time.Date(2027, time.April, 1, 0, 0, 0, 0, time.UTC)

// checkEnd finds what has no newer contract than v1beta1.
func checkEnd(r *Release, found report) {
	const last = "v1beta1"
	for _, o := range objects(r.Metadata) {
		all := list(o.Fields, "releaseSeries")
		if i := slices.IndexFunc(all, r.ofSeries); i >= 0 && text(all[i], "contract") == last {
			found(o.at("releaseSeries", fmt.Sprint(i), "contract"), "the release has contract "+last)
			return // its CRDs have no other, either
		}
	}
	eachContractCRD(r, func(o *Object, _ shape) {
		if c, _ := chosenVersion(o); c == last {
			found(o.at("metadata", "labels", contractLabel+last), "the newest contract of the kind is "+last)
		}
	})
}

func checkSeries(r *Release, found report) {
	version, err := utilversion.ParseSemantic(r.Version)
	if err != nil {
		return
	}
	want := fmt.Sprintf("%d.%d", version.Major(), version.Minor())
	for _, o := range objects(r.Metadata) {
		i := slices.IndexFunc(list(o.Fields, "releaseSeries"), func(series any) bool { return seriesName(series) == want })
		if i < 0 {
			found(o.at("releaseSeries"), fmt.Sprintf("series %s is missing", want))
			continue
		}
		contract := text(list(o.Fields, "releaseSeries")[i], "contract")
		if !slices.Contains(servedContracts, contract) {
			found(o.at("releaseSeries", fmt.Sprint(i), "contract"), fmt.Sprintf("Cluster API does not work with contract %q", contract))
		}
	}
}

func seriesName(series any) string {
	number := func(field string) any { // clusterctl takes one that is missing for 0
		if n := get(series, field); n != nil {
			return n
		}
		return 0
	}
	return fmt.Sprintf("%v.%v", number("major"), number("minor"))
}
