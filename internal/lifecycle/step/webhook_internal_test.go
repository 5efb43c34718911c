package step

import (
	"net/netip"
	"testing"
	"time"
)

func TestDestination(t *testing.T) {
	allowed := []netip.Prefix{netip.MustParsePrefix("10.20.0.0/16"), netip.MustParsePrefix("fd00:1::/64"), netip.MustParsePrefix("169.254.0.0/16"),
		netip.MustParsePrefix("168.63.129.0/24"), netip.MustParsePrefix("100.100.100.0/24"), netip.MustParsePrefix("fd00:ec2::/64"), netip.MustParsePrefix("64:ff9b::a9fe:0/112")}
	for address, want := range map[string]bool{
		"93.184.216.34": true, "2606:2800:220:1:248:1893:25c8:1946": true, // public
		"127.0.0.1": false, "::1": false, "::ffff:127.0.0.1": false, "0.0.0.0": false, "0.1.2.3": false, "::": false,
		"10.96.0.1": false, "10.244.3.7": false, "172.16.0.1": false, "192.168.1.1": false, "100.64.0.1": false, "fd12::1": false, "fec0::1": false,
		"::ffff:10.96.0.1": false, "64:ff9b::a60:1": false, "64:ff9b:1::1": false, "2002:a60:1::": false, "240.0.0.1": false, "255.255.255.255": false,
		"::10.96.0.1": false, "::ffff:0:10.96.0.1": false, "2001::1": false, "2001:4860::1": true,
		"10.20.1.1": true, "::ffff:10.20.1.1": true, "10.21.0.1": false, "fd00:1::7": true, "fd00:2::7": false,
		// Not even if somebody allows it.
		"168.63.129.16": false, "100.100.100.200": false, "fd00:ec2::254": false, "64:ff9b::a9fe:a9fe": false, "168.63.129.17": true,
		"169.254.169.254": false, "::ffff:169.254.169.254": false, "fe80::1%eth0": false, "224.0.0.1": false, "ff02::1": false,
	} {
		if err := checkDestination(netip.MustParseAddr(address), allowed); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestTheSignatureIsThatOfTheStandard takes key, message and signature from the
// examples of Standard Webhooks.
func TestTheSignatureIsThatOfTheStandard(t *testing.T) {
	key, err := parseSigningKey([]byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
	if err != nil {
		t.Fatal(err)
	}
	got := sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
