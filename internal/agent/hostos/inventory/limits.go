package inventory

import (
	"math"
	"strings"

	texts "github.com/slipway-dev/slipway/internal/text"
)

// Limits of the API, in characters: api/v1beta2/hardware_types.go. Lists are cut in the report.
const (
	maxName    = 64
	maxText    = 128
	maxID      = 256
	maxAddress = 32
)

// Numbers that are no sizes and speeds any more.
const (
	maxBytes = math.MaxInt64
	maxSpeed = math.MaxInt32
)

// text is what firmware or a device says as one line of at most so many characters.
func text(said string, most int) string {
	runes := []rune(texts.Printable(said))
	return strings.TrimSpace(string(runes[:min(len(runes), most)]))
}

// digits are the first four of a hexadecimal number as sysfs writes it, such as 0x030000;
// empty when there are none.
func digits(number string) string {
	const many = 4
	hex, found := strings.CutPrefix(strings.ToLower(number), "0x")
	if !found || len(hex) < many || strings.Trim(hex, "0123456789abcdef") != "" {
		return ""
	}
	return hex[:many]
}
