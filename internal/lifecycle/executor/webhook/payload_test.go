package webhook

import (
	"testing"
	"time"
)

// TestTheSignatureIsThatOfTheStandard takes key, message and signature from the
// examples of Standard Webhooks.
func TestTheSignatureIsThatOfTheStandard(t *testing.T) {
	key, err := parseKey([]byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
	if err != nil {
		t.Fatal(err)
	}
	got := sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
