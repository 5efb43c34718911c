package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"sigs.k8s.io/yaml"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/internal/provision"
	"github.com/slipway-dev/slipway/internal/provision/remote"
)

// hostsFile is an inventory of machines; its fields are an API.
type hostsFile struct {
	Hosts []struct {
		Address       string            `json:"address"`
		FailureDomain string            `json:"failureDomain,omitempty"`
		Labels        map[string]string `json:"labels,omitempty"`
	} `json:"hosts"`
}

// readHosts reads the machines of an inventory, and which Host each becomes: what a machine has no
// value of is that of all.
func readHosts(path, user string, all provision.Place) ([]string, map[string]provision.Place, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("--file: %w", err)
	}
	file := hostsFile{}
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return nil, nil, fmt.Errorf("--file %s: %w", path, err)
	}
	var addresses []string
	var errs []error
	places := map[string]provision.Place{}
	for i, h := range file.Hosts {
		at := field.NewPath("hosts").Index(i)
		address, err := remote.Normalize(h.Address, user)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", at.Child("address"), err))
			continue
		}
		if slices.Contains(addresses, address) {
			errs = append(errs, fmt.Errorf("%s: %s is in the file twice", at.Child("address"), address))
		}
		if wrong := metav1validation.ValidateLabels(h.Labels, at.Child("labels")); len(wrong) > 0 {
			errs = append(errs, wrong.ToAggregate())
		}
		place := provision.Place{Labels: maps.Clone(all.Labels), FailureDomain: all.FailureDomain}
		if place.Labels == nil {
			place.Labels = map[string]string{}
		}
		maps.Copy(place.Labels, h.Labels)
		if h.FailureDomain != "" {
			place.FailureDomain = h.FailureDomain
		}
		addresses, places[address] = append(addresses, address), place
	}
	if len(file.Hosts) == 0 {
		errs = append(errs, errors.New("it has no hosts"))
	}
	if len(errs) > 0 {
		return nil, nil, fmt.Errorf("--file %s: %w", path, errors.Join(errs...))
	}
	return addresses, places, nil
}
