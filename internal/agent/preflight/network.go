package preflight

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/hostos/kubelet"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
)

func checkPorts(_ context.Context, s *scope) []Finding {
	if s.exists("/etc/kubernetes/kubelet.conf") {
		// They are its own; the check before has the say.
		return nil
	}
	taken, err := kubelet.TakenPorts(s.ReadFile, s.apiServerPort)
	if err != nil {
		return bad(Warning, "sudo ss -ltn shows where programs listen", "it is unknown whether the ports of Kubernetes are free: %v", err)
	}
	if len(taken) == 0 {
		return good("free")
	}
	names := make([]string, len(taken))
	for i, port := range taken {
		names[i] = strconv.Itoa(port)
	}
	return bad(Error, fmt.Sprintf("sudo ss -ltnp 'sport = :%s' shows who listens; stop it", names[0]), "ports of Kubernetes are taken: %s", strings.Join(names, ", "))
}

func checkFirewall(ctx context.Context, s *scope) []Finding {
	if state, _ := s.Run(ctx, "systemctl", "is-active", "firewalld"); strings.TrimSpace(state) == "active" {
		return bad(Warning, fmt.Sprintf("sudo firewall-cmd --permanent --add-port={%d,2379-2380,10250}/tcp --add-masquerade && sudo firewall-cmd --reload, and open what the network plugin needs; or sudo systemctl disable --now firewalld", s.apiServerPort),
			"firewalld is active: by default it blocks the API server, the kubelet and the pod network")
	}
	if out, _ := s.Run(ctx, "ufw", "status"); strings.Contains(out, "Status: active") {
		return bad(Warning, fmt.Sprintf("sudo ufw allow %d,10250/tcp && sudo ufw allow 2379:2380/tcp && sudo ufw default allow routed, and open what the network plugin needs; or sudo ufw disable", s.apiServerPort),
			"ufw is active: by default it blocks the API server, the kubelet and the pod network")
	}
	return good("no firewalld, no ufw")
}

func checkSELinux(ctx context.Context, s *scope) []Finding {
	if s.text("/sys/fs/selinux/enforce") != "1" {
		return nil
	}
	if _, err := s.Run(ctx, "rpm", "-q", "container-selinux"); err != nil {
		return bad(Error, s.distro.install("container-selinux", "container-selinux"), "SELinux is enforcing, and the policy for containers is not installed")
	}
	return good("enforcing, with the policy for containers")
}

func checkTime(ctx context.Context, s *scope) []Finding {
	install := s.distro.install("chrony", "chrony") + " && sudo systemctl enable --now " + s.distro.either("chrony", "chronyd")
	if !s.Has("timedatectl") {
		return bad(Warning, install, "there is no timedatectl, so it is unknown whether the clock is set from the network; certificates need a right clock")
	}
	out, err := s.Run(ctx, "timedatectl", "show", "--property=NTPSynchronized", "--value")
	switch strings.TrimSpace(out) {
	case "yes":
		return good("set from the network")
	case "no":
		return bad(Warning, install, "the clock is not set from the network; certificates and leases need a right clock")
	}
	return bad(Warning, install, "timedatectl does not tell whether the clock is set from the network (%q, %v)", strings.TrimSpace(out), err)
}

// resolverFiles are those that kubeadm has the kubelet read: systemd-resolved's where that
// runs, and else the one that every program goes by.
var resolverFiles = []string{"/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"}

// checkResolver wants the file, and a name server in it: pods of CoreDNS get the file of their
// node, and forward to whom it names. A host without can be a node of a cluster whose
// CoreDNS is elsewhere.
func checkResolver(_ context.Context, s *scope) []Finding {
	for _, path := range resolverFiles {
		content, err := s.ReadFile(path)
		if err != nil {
			continue
		}
		servers, loops, links := nameServers(string(content))
		switch {
		case len(loops) > 0 && len(loops) == len(servers):
			return bad(Error, "name the servers that the local one asks: with systemd-resolved, sudo systemctl enable --now systemd-resolved; otherwise echo 'nameserver ADDRESS' | sudo tee "+path,
				"the name servers in %s are on loopback (%s): pods have another loopback, and CoreDNS ends as it would ask itself (plugin/loop)", path, strings.Join(loops, ", "))
		case len(loops) > 0:
			return bad(Warning, "take it out of "+path, "a name server in %s is on loopback (%s): pods do not reach it, and CoreDNS may end (plugin/loop)", path, strings.Join(loops, ", "))
		case len(links) > 0 && len(links) == len(servers):
			return bad(Warning, "echo 'nameserver ADDRESS' | sudo tee -a "+path+", an address that routers know; of a router of IPv6, its global one",
				"the name servers in %s are link-local (%s): pods do not reach them, and resolve names of the cluster only", path, strings.Join(links, ", "))
		case len(servers) > 0:
			return good("%s", path)
		}
		return bad(Warning, "echo 'nameserver ADDRESS' | sudo tee -a /etc/resolv.conf; where there is no name server, an address that nobody has, such as 192.0.2.53, makes CoreDNS answer for the names of the cluster",
			"there is no name server in %s: CoreDNS ends at once on this host (plugin/forward: no nameservers found)", path)
	}
	return bad(Error, "echo 'nameserver ADDRESS' | sudo tee /etc/resolv.conf; where there is no name server: sudo touch /etc/resolv.conf",
		"there is no /etc/resolv.conf: without it the kubelet makes no pod, and the Node never gets ready")
}

// nameServers are those of a resolv.conf, and those of them that are on loopback or link-local, as
// routers of IPv6 announce themselves.
func nameServers(content string) (all, loops, links []string) {
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		all = append(all, fields[1])
		ip, err := netip.ParseAddr(fields[1])
		switch {
		case err == nil && (ip.IsLoopback() || ip.IsUnspecified()): // the resolver takes the latter for this host
			loops = append(loops, fields[1])
		case err == nil && ip.IsLinkLocalUnicast():
			links = append(links, fields[1])
		}
	}
	return all, loops, links
}

// clockSkew is half of what Kubernetes bears between who issues a token and who verifies
// it. The manager reports as much in the condition ClockSkewed.
const clockSkew = 30 * time.Second

// probeTimeout bounds the connection to the management cluster.
const probeTimeout = 10 * time.Second

func checkManagementAPI(ctx context.Context, s *scope) []Finding {
	if s.configErr != nil && !errors.Is(s.configErr, fs.ErrNotExist) {
		return bad(Error, "correct the file", "%v", s.configErr)
	}
	if s.configErr != nil {
		return bad(Warning, "write it and the bootstrap kubeconfig (with a local plane: `slipway host token`), then run this again",
			"not tried: %v", s.configErr)
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	kubeconfig := s.config.BootstrapKubeconfig
	if enrolled := filepath.Join(s.config.StateDir, config.KubeconfigFile); !s.exists(kubeconfig) && s.exists(enrolled) {
		// The agent removes the other one once the host is enrolled.
		kubeconfig = enrolled
	}
	endpoint, err := s.Probe(ctx, kubeconfig)
	if err != nil {
		remedy, message := explain(err, kubeconfig)
		return bad(Error, remedy, "%s: %s", orElse(endpoint.Server, kubeconfig), message)
	}
	if skew := s.Now().Sub(endpoint.Date).Abs(); !endpoint.Date.IsZero() && skew > clockSkew {
		return bad(Error, "set the clock of the host from the network (see the check time)", "the clock of this host and that of %s are %s apart", endpoint.Server, skew.Round(time.Second))
	}
	return good("%s answers, and its certificate is in order", endpoint.Server)
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// explain turns the error of a probe into a remedy and a message.
func explain(err error, kubeconfig string) (remedy, message string) {
	var (
		dns       *net.DNSError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &dns):
		return "correct the server's name in " + kubeconfig + ", or the host's /etc/resolv.conf", fmt.Sprintf("the name %s cannot be resolved", dns.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "start the API server, or correct the port in " + kubeconfig, "the connection is refused: nothing listens there"
	case errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH):
		return "mend the route: ip route get ADDRESS", "there is no route to it"
	case errors.As(err, &authority):
		return "take certificate-authority-data from the management cluster again; a proxy that breaks TLS open cannot be used", "its certificate is not from the authority in " + kubeconfig
	case errors.As(err, &name):
		return "use a name or address that is in the server's certificate, or add this one to it", name.Error()
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "set the clock of the host, or renew the server's certificate", "its certificate is out of its time as seen from this host's clock"
	case errors.Is(err, context.DeadlineExceeded):
		return "open the way in the firewalls between the host and the management cluster", fmt.Sprintf("no answer within %s: packets are dropped on the way", probeTimeout)
	}
	return "correct " + kubeconfig + "; with a local plane `slipway host token` makes one", err.Error()
}
