package hooktest

import (
	"testing"

	"github.com/slipway-dev/slipway/sdk/conformance"
)

// Conformance runs the checks of package conformance as subtests. Warnings are logged.
func Conformance(t *testing.T, options conformance.Options) {
	t.Helper()
	report, err := conformance.Check(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range report.Results {
		t.Run(result.Name, func(t *testing.T) {
			if result.Err != nil {
				t.Error(result.Err)
			}
			if result.Warning != "" {
				t.Log("warning:", result.Warning)
			}
		})
	}
}
