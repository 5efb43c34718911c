package instance

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// DefaultListenPort is where hosts on other machines reach a plane, unless --listen has
// a port: the one that API servers have elsewhere.
const DefaultListenPort = 6443

// maxListenPort leaves the one after it for host bundles.
const maxListenPort = 65534

// Listen is where hosts on other machines reach the plane's API server.
type Listen struct {
	// Host is an address of this machine or a name of one; Port of it.
	Host string
	Port uint16
	// Names are names and addresses by which hosts reach it besides, the one that they
	// are told first.
	Names []string
}

// ListensAt returns where hosts on other machines reach the plane; nil for one that listens
// on this machine's loopback alone.
func (c Config) ListensAt() (*Listen, error) {
	if c.Listen == "" {
		if c.TLSNames != "" {
			return nil, errors.New("--tls-san: is for a plane that hosts on other machines reach; name the address by --listen, too")
		}
		return nil, nil
	}
	l := &Listen{}
	var err error
	if l.Host, l.Port, err = parseListen(c.Listen); err != nil {
		return nil, fmt.Errorf("--listen %q: %w", c.Listen, err)
	}
	if l.Names, err = parseNames(c.TLSNames); err != nil {
		return nil, fmt.Errorf("--tls-san: %w", err)
	}
	if l.Port > maxListenPort {
		return nil, fmt.Errorf("--listen %s: host bundles are served at the port after it; want one up to %d", c.Listen, maxListenPort)
	}
	if !unspecified(l.Host) {
		return l, nil
	}
	if len(l.Names) == 0 {
		return nil, fmt.Errorf("--listen %s: that is every address of this machine, now and later: name one of them, or give the names and addresses by which hosts reach it with --tls-san", c.Listen)
	}
	for _, port := range []uint16{l.Port, l.BundlePort()} {
		if int(port) == c.APIPort {
			return nil, fmt.Errorf("--listen %s: port %d of 127.0.0.1 is the one of --api-port: choose another one", c.Listen, port)
		}
	}
	return l, nil
}

// Server is the URL that hosts on other machines are told.
func (l *Listen) Server() string {
	host := l.Host
	if len(l.Names) > 0 {
		host = l.Names[0]
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(int(l.Port)))
}

// BundlePort is where they fetch host bundles: the one after the API server's.
func (l *Listen) BundlePort() uint16 { return l.Port + 1 }

// BundleServer is the URL of that: at whatever name or address a host knows the plane by.
func (l *Listen) BundleServer() string { return "https://:" + strconv.Itoa(int(l.BundlePort())) }

func parseListen(text string) (host string, port uint16, err error) {
	host, port = text, DefaultListenPort
	if _, err := netip.ParseAddr(text); err != nil {
		if h, p, err := net.SplitHostPort(text); err == nil {
			n, err := strconv.ParseUint(p, 10, 16)
			if err != nil || n == 0 {
				return "", 0, fmt.Errorf("port %q: want 1 to 65535", p)
			}
			host, port = h, uint16(n)
		} else if inner, ok := strings.CutPrefix(text, "["); ok {
			host, _ = strings.CutSuffix(inner, "]")
		}
	}
	host, err = parseHost(host)
	return host, port, err
}

func parseNames(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	names := strings.Split(text, ",")
	for i, name := range names {
		host, err := parseHost(name)
		if err != nil {
			return nil, err
		}
		if unspecified(host) {
			return nil, fmt.Errorf("%s is no address that hosts reach; name one that they do", name)
		}
		names[i] = host
	}
	return names, nil
}

// parseHost returns an IP address or a name as certificates have them.
func parseHost(text string) (string, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		if ip.Zone() != "" {
			return "", fmt.Errorf("%s: an address with a zone is known on its own link alone; want one that hosts reach", text)
		}
		return ip.Unmap().String(), nil
	}
	name := strings.ToLower(text)
	if len(validation.IsDNS1123Subdomain(name)) > 0 || allDigits(name) {
		return "", fmt.Errorf("%q is neither an IP address nor a host name: want it without a scheme, such as 192.0.2.10 or 192.0.2.10:6443", text)
	}
	return name, nil
}

// allDigits holds for what was meant as an address: no top-level domain is a number.
func allDigits(name string) bool {
	return strings.Trim(name[strings.LastIndexByte(name, '.')+1:], "0123456789") == ""
}

func unspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsUnspecified()
}
