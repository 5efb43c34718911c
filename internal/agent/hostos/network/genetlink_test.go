package network

import (
	"encoding/hex"
	"slices"
	"testing"
)

// TestVirtualServices: the kernel's list, as kube-proxy and kube-router fill it, and the messages that delete services.
func TestVirtualServices(t *testing.T) {
	const list = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:01BB rr
  -> 0A00000A:192B      Masq    1      0          0
UDP  0A60000A:0035 rr persistent 10800
SCTP 0A60000B:0050 wlc
TCP  [fd00:0010:0096:0000:0000:0000:0000:0001]:01BB rr
  -> [fd00:0000:0000:0000:0000:0000:0000:000a]:192B      Masq    1      0          0
FWM  00001234 mh mh-port
`
	all, err := parseIPVS(list)
	if err != nil {
		t.Fatal(err)
	}
	var names, messages []string
	for _, s := range all {
		names, messages = append(names, s.String()), append(messages, hex.EncodeToString(s.attribute().Serialize()))
	}
	if want := []string{"TCP 10.96.0.1:443", "UDP 10.96.0.10:53", "SCTP 10.96.0.11:80", "TCP [fd00:10:96::1]:443", "mark 0x1234"}; !slices.Equal(names, want) {
		t.Errorf("services are %q, want %q", names, want)
	}
	// Attribute by attribute: length, type, value; the family, the protocol, the address and the port, or the mark.
	if want := []string{
		"30000180" + "0600010002000000" + "0600020006000000" + "14000300" + "0a600001000000000000000000000000" + "0600040001bb0000",
		"30000180" + "0600010002000000" + "0600020011000000" + "14000300" + "0a60000a000000000000000000000000" + "0600040000350000",
		"30000180" + "0600010002000000" + "0600020084000000" + "14000300" + "0a60000b000000000000000000000000" + "0600040000500000",
		"30000180" + "060001000a000000" + "0600020006000000" + "14000300" + "fd000010009600000000000000000001" + "0600040001bb0000",
		"14000180" + "0600010002000000" + "0800050034120000",
	}; !slices.Equal(messages, want) {
		t.Errorf("messages are\n%q, want\n%q", messages, want)
	}
	for _, broken := range []string{"TCP 0A600001 rr", "TCP 0A60:01BB rr", "TCP [fd00]:01BB rr", "FWM zz rr", "UDP 0A600001:xx rr"} {
		if _, err := parseIPVS(broken); err == nil {
			t.Errorf("%q counts as a service", broken)
		}
	}
}

// TestSwitchMessage: ports of Open vSwitch go by a message of its own; that of the usual kind is refused.
func TestSwitchMessage(t *testing.T) {
	if is := hex.EncodeToString(switchMessage(switchPortName, "br-int")); is != "00000000"+"0b000300"+hex.EncodeToString([]byte("br-int\x00"))+"00" {
		t.Errorf("the message is %s", is)
	}
}
