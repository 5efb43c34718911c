package operation

import (
	"encoding/json"
	"testing"
)

func TestTruncate(t *testing.T) {
	for text, want := range map[string]string{
		"":               "",
		"12345678":       "12345678",
		"123456789":      "12345...",
		"ééééé":          "éé...", // 5 bytes would cut the third in two
		"éééé":           "éééé",
		"a\xff":          "a\uFFFD",
		"123456\xff\xfe": "12345...",
	} {
		got := Truncate(text, 8)
		if got != want {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
		var stored string
		if body, err := json.Marshal(got); err != nil || json.Unmarshal(body, &stored) != nil || stored != got || len(got) > 8 {
			t.Errorf("%q is stored as %q", got, stored)
		}
	}
}
