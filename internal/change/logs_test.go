package change

import (
	"slices"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Each line is shown once, whatever answers have of those before, and gaps are counted.
func TestNewLines(t *testing.T) {
	for _, tc := range []struct {
		status  infrav1.HostLogRequestStatus
		last    int64
		missing int64
		lines   []string
	}{
		{last: 0},
		{infrav1.HostLogRequestStatus{FirstLine: 3, Text: "3\n4\n"}, 0, 2, []string{"3\n", "4\n"}},
		{infrav1.HostLogRequestStatus{FirstLine: 3, Text: "3\n4\n", Message: "again"}, 4, 0, nil},
		{infrav1.HostLogRequestStatus{FirstLine: 4, Text: "4\n5\n"}, 4, 0, []string{"5\n"}},
		{infrav1.HostLogRequestStatus{FirstLine: 8, Text: "8\n"}, 5, 2, []string{"8\n"}},
	} {
		if missing, lines := newLines(&tc.status, tc.last); missing != tc.missing || !slices.Equal(lines, tc.lines) {
			t.Errorf("%+v after %d: %d missing, %q", tc.status, tc.last, missing, lines)
		}
	}
}
