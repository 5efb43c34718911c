package wire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/internal/wire"
)

// TestFootprint decodes bodies of up to 20 MiB under the default budget: large ones
// that stay as large pass, those that become much larger do not.
func TestFootprint(t *testing.T) {
	definition := capi.GeneratePatches.Definition()
	raw := `{"uid":"1","object":{"a":"` + strings.Repeat("x", 10_000) + `"}},`
	tests := map[string]struct {
		body    string
		refused bool
	}{
		"2,000 templates of 10 KB": {`{"items":[` + strings.TrimSuffix(strings.Repeat(raw, 2_000), ",") + `]}`, false},
		"one template of 19 MB":    {`{"items":[{"object":"` + strings.Repeat("x", 19_000_000) + `"}]}`, false},
		"numbers in a template":    {`{"items":[{"object":[` + strings.Repeat("0,", 5_000_000) + `0]}]}`, false},
		"empty items":              {`{"items":[` + strings.Repeat("{},", 1_000_000) + `{}]}`, true},
		"null items":               {`{"items":[` + strings.Repeat("null,", 1_000_000) + `null]}`, true},
		"nested empty variables":   {`{"items":[{"variables":[` + strings.Repeat("{},", 3_000_000) + `{}]}]}`, true},
		"empty items with spaces":  {`{"items":[` + strings.Repeat("{        },", 1_000_000) + `{}]}`, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := wire.NewBudget(40 << 20)
			body, err := b.Read(t.Context(), wire.Source{Reader: strings.NewReader(tt.body), Length: int64(len(tt.body)), Limit: 20 << 20})
			if err != nil {
				t.Fatal(err)
			}
			defer body.Release()
			err = body.Decode(t.Context(), definition.NewRequest(), definition.RequestKind)
			var footprint *wire.FootprintError
			if errors.As(err, &footprint) != tt.refused || !tt.refused && err != nil {
				t.Errorf("got %v, want it refused: %t", err, tt.refused)
			}
		})
	}
}
