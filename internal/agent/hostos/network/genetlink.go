package network

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Of what kernel modules add, this reads only what is loaded: a request by name would load the module.

// ipvsServices is where the kernel lists the virtual services of IPVS, by which kube-proxy and kube-router translate the addresses of
// Services.
const ipvsServices = "/proc/thread-self/net/ip_vs"

// virtualService is one of IPVS: of a protocol, an address and a port, or of packets with a mark.
type virtualService struct {
	protocol uint16
	address  netip.AddrPort
	mark     uint32
	schedule string
}

func (s virtualService) String() string {
	switch s.protocol {
	case 0:
		return fmt.Sprintf("mark %#x", s.mark)
	case unix.IPPROTO_UDP:
		return "UDP " + s.address.String()
	case unix.IPPROTO_SCTP:
		return "SCTP " + s.address.String()
	default:
		return "TCP " + s.address.String()
	}
}

// parseIPVS reads the kernel's list.
func parseIPVS(list string) ([]virtualService, error) {
	protocols := map[string]uint16{"FWM": 0, "TCP": unix.IPPROTO_TCP, "UDP": unix.IPPROTO_UDP, "SCTP": unix.IPPROTO_SCTP}
	var all []virtualService
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		protocol, is := protocols[f[0]]
		if !is {
			continue // a heading, or a server of the service above
		}
		s := virtualService{protocol: protocol, schedule: f[2]}
		if protocol == 0 {
			mark, err := strconv.ParseUint(f[1], 16, 32)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			s.mark = uint32(mark)
		} else {
			at := strings.LastIndex(f[1], ":")
			port, err := strconv.ParseUint(f[1][at+1:], 16, 16)
			ip := netip.Addr{}
			if address := f[1][:max(at, 0)]; err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			} else if strings.HasPrefix(address, "[") {
				ip, err = netip.ParseAddr(strings.Trim(address, "[]"))
			} else {
				var raw []byte
				if raw, err = hex.DecodeString(address); err == nil && len(raw) == 4 {
					ip = netip.AddrFrom4([4]byte(raw))
				}
			}
			if err != nil || !ip.IsValid() {
				return nil, fmt.Errorf("%q is not a virtual service", line)
			}
			s.address = netip.AddrPortFrom(ip, uint16(port))
		}
		all = append(all, s)
	}
	return all, nil
}

func listIPVS() ([]virtualService, error) {
	list, err := os.ReadFile(ipvsServices)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the module is not loaded
	}
	if err != nil {
		return nil, err
	}
	return parseIPVS(string(list))
}

func lookIPVS() (map[string]string, error) {
	all, err := listIPVS()
	found := make(map[string]string, len(all))
	for _, s := range all {
		found[s.String()] = "scheduler=" + s.schedule
	}
	return found, err
}

// Commands and attributes of IPVS (linux/ip_vs.h).
const (
	ipvsDeleteService = 3 // IPVS_CMD_DEL_SERVICE
	ipvsService       = 1 // IPVS_CMD_ATTR_SERVICE
	ipvsFamily        = 1 // IPVS_SVC_ATTR_AF
	ipvsProtocol      = 2 // IPVS_SVC_ATTR_PROTOCOL
	ipvsAddress       = 3 // IPVS_SVC_ATTR_ADDR
	ipvsPort          = 4 // IPVS_SVC_ATTR_PORT
	ipvsMark          = 5 // IPVS_SVC_ATTR_FWMARK
)

// attribute names the service in a message to the kernel.
func (s virtualService) attribute() *nl.RtAttr {
	of := nl.NewRtAttr(unix.NLA_F_NESTED|ipvsService, nil)
	family := uint16(unix.AF_INET)
	if s.address.Addr().Is6() {
		family = unix.AF_INET6
	}
	of.AddRtAttr(ipvsFamily, nl.Uint16Attr(family))
	if s.protocol == 0 {
		of.AddRtAttr(ipvsMark, nl.Uint32Attr(s.mark))
		return of
	}
	address := [16]byte{}
	copy(address[:], s.address.Addr().AsSlice())
	of.AddRtAttr(ipvsProtocol, nl.Uint16Attr(s.protocol))
	of.AddRtAttr(ipvsAddress, address[:])
	of.AddRtAttr(ipvsPort, binary.BigEndian.AppendUint16(nil, s.address.Port()))
	return of
}

func removeIPVS(names []string) error {
	all, err := listIPVS()
	errs := []error{err}
	for _, s := range all {
		if slices.Contains(names, s.String()) {
			errs = append(errs, unlessGone(generic("IPVS", ipvsDeleteService, s.attribute().Serialize()), "remove IPVS service "+s.String()))
		}
	}
	return errors.Join(errs...)
}

// generic sends a command to a part of the kernel by its name, and waits for its answer.
func generic(family string, command uint8, data []byte) error {
	is, err := netlink.GenlFamilyGet(family)
	if err != nil {
		return err
	}
	request := nl.NewNetlinkRequest(int(is.ID), unix.NLM_F_ACK)
	request.AddData(&nl.Genlmsg{Command: command, Version: uint8(is.Version)})
	request.AddRawData(data)
	_, err = request.Execute(unix.NETLINK_GENERIC, 0)
	return err
}

// Commands and attributes of Open vSwitch (linux/openvswitch.h).
const (
	switchDelete   = 2 // OVS_DP_CMD_DEL, OVS_VPORT_CMD_DEL
	switchName     = 1 // OVS_DP_ATTR_NAME
	switchPortName = 3 // OVS_VPORT_ATTR_NAME
)

// removeSwitchPort removes a port of a switch of Open vSwitch, which the usual message does not, or the switch whose own port it is, with all of
// its ports.
func removeSwitchPort(name string) error {
	err := generic("ovs_vport", switchDelete, switchMessage(switchPortName, name))
	if errors.Is(err, unix.EINVAL) { // the switch's own
		err = generic("ovs_datapath", switchDelete, switchMessage(switchName, name))
	}
	return err
}

// switchMessage names a switch, or a port of any switch.
func switchMessage(attribute int, name string) []byte {
	const anySwitch = "\x00\x00\x00\x00" // struct ovs_header
	return append([]byte(anySwitch), nl.NewRtAttr(attribute, nl.ZeroTerminated(name)).Serialize()...)
}

// listFOU returns the ports at which the kernel takes packets of tunnels in UDP, as those of kube-router.
func listFOU() (map[string]netlink.Fou, error) {
	families, err := netlink.GenlFamilyList()
	if err != nil || !slices.ContainsFunc(families, func(f *netlink.GenlFamily) bool { return f.Name == "fou" }) {
		return nil, err
	}
	found := map[string]netlink.Fou{}
	for _, family := range families4and6 {
		all, err := ReadAll(func() ([]netlink.Fou, error) { return netlink.FouList(family) })
		if err != nil && !absent(err) {
			return nil, err
		}
		for _, f := range all {
			if f.Family != family {
				continue
			}
			name := strconv.Itoa(f.Port)
			if family == netlink.FAMILY_V6 {
				name += " of IPv6"
			}
			found[name] = f
		}
	}
	return found, nil
}

func lookFOU() (map[string]string, error) {
	all, err := listFOU()
	found := make(map[string]string, len(all))
	for name, f := range all {
		found[name] = fmt.Sprintf("protocol=%d type=%d", f.Protocol, f.EncapType)
	}
	return found, err
}

func removeFOU(names []string) error {
	all, err := listFOU()
	errs := []error{err}
	for _, name := range names {
		if f, there := all[name]; there {
			errs = append(errs, unlessGone(netlink.FouDel(f), "remove port "+name+" of tunnels"))
		}
	}
	return errors.Join(errs...)
}
