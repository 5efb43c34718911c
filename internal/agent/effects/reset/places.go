package reset

import (
	"path"
	"slices"
	"strings"
)

// directories hold files of Kubernetes only. Their files go. So do they, unless they were
// there before a bootstrap: packages of the distribution make some.
var directories = []string{
	"/etc/kubernetes", "/var/lib/kubelet", "/var/lib/etcd", "/var/lib/cni", "/run/kubeadm", "/run/cluster-api", "/run/flannel",
}

// cniConfigs is shared with the host's own plugins: the record tells which
// files were there before.
const cniConfigs = "/etc/cni/net.d"

// foreignCNIConfigs are the names of network configurations that other programs than
// Kubernetes' network plugins leave beside those.
var foreignCNIConfigs = []string{"*podman*", "*nerdctl*", "*crio*", "*loopback*"}

// place is a directory, or a file, all of which is recorded.
type place struct {
	path string
	// plugin: what came is removed, by any maker. Of other places, a reset takes back what changed
	// while the bootstrap ran, and what changed later is named.
	plugin bool
	// added: only what came counts, and contents are not read. Clusters bring builds of their own of
	// network plugins, and a plugin that the operator runs, too, writes to its own files.
	added bool
	// sized: of its files the sizes and times count, as they are large and many.
	sized bool
	// only the directory itself, or with its entries; of a file, only who may do what with it.
	only, shallow bool
	// whole: contents are read whatever the size of the file.
	whole bool
	// extensions are those of its files that count; empty for all.
	extensions []string
	// since is the version of records that have it.
	since int
	// home is the directory of a user that it is in: see homePlaces.
	home string
}

// places by who writes there.
var places = slices.Concat(
	// The kubelet runs FlexVolume drivers once it finds them; it makes the directories.
	[]place{{path: "/usr/libexec/kubernetes", plugin: true}},
	// containerd runs plugins of its Node Resource Interface when it starts.
	[]place{{path: "/opt/nri", plugin: true}, {path: "/etc/nri", plugin: true}},
	// It finds programs in /opt/containerd before others, and mounts and runs what descriptions of devices say.
	[]place{{path: "/opt/containerd", plugin: true, since: 5}, {path: "/etc/cdi", plugin: true, since: 5}, {path: "/run/cdi", plugin: true, since: 5}},
	// It runs network plugins for each pod.
	[]place{{path: "/opt/cni", plugin: true, added: true}, {path: "/etc/cni", plugin: true}},
	pluginPlaces,
	// Data of pods and of storage is made beside what the distribution has.
	[]place{
		{path: "/opt", shallow: true, added: true}, {path: "/srv", shallow: true, added: true}, {path: "/var/lib", shallow: true, added: true},
		{path: "/", shallow: true, added: true, since: 5}, {path: "/mnt", shallow: true, added: true, since: 5}, {path: "/var", shallow: true, added: true, since: 5},
	},
	// What plugins write into directories of the system: Cilium has the filter of source addresses off.
	[]place{{path: "/etc/sysctl.d/99-zzz-override_cilium.conf", plugin: true}, {path: "/etc/openvswitch", plugin: true}, {path: "/etc/ovn", plugin: true}, {path: "/etc/calico", plugin: true}},
	// What the system starts, and what it trusts.
	[]place{
		{path: "/usr/lib/systemd"}, {path: "/usr/lib/udev"}, {path: "/usr/lib/sysctl.d"}, {path: "/usr/lib/modules-load.d"}, {path: "/usr/lib/modprobe.d"},
		{path: "/usr/lib/tmpfiles.d"}, {path: "/usr/lib/sysusers.d"}, {path: "/usr/lib/environment.d"}, {path: "/usr/lib/NetworkManager"},
		{path: "/usr/share/ca-certificates"}, {path: "/usr/share/pki"}, {path: "/usr/bin", sized: true}, {path: "/usr/sbin", sized: true},
	},
	// What the system, its services and its users read.
	[]place{{path: "/etc"}, {path: "/usr/local"}, {path: "/run/systemd/system"}, {path: "/run/udev/rules.d"}, {path: "/var/spool/cron"}},
	// Of other accounts: see homePlaces.
	ofRoot(),
	// Who may write to directories of which only some entries are looked at.
	[]place{
		{path: "/usr", only: true, since: 1}, {path: "/root", only: true, since: 1}, {path: "/home", only: true, since: 1},
		{path: "/run", only: true, since: 1}, {path: "/tmp", only: true, since: 1}, {path: "/var/tmp", only: true, since: 1}, {path: "/var/log", only: true, since: 1},
		{path: "/usr/lib", only: true, since: 1}, {path: "/usr/share", only: true, since: 1}, {path: "/var/spool", only: true, since: 1}, {path: "/boot", only: true, since: 1},
		{path: "/etc/sudoers.d", only: true, since: 1},
	},
	// Which disks of other machines the system attaches, with their passwords.
	[]place{{path: "/etc/iscsi/nodes", plugin: true}, {path: "/etc/iscsi/send_targets", plugin: true}, {path: "/var/lib/iscsi/nodes", plugin: true, since: 2}, {path: "/var/lib/iscsi/send_targets", plugin: true, since: 2}},
	// What runs later, or without a login, and units that were made to run at once.
	[]place{{path: "/var/spool/at", since: 2}, {path: "/var/lib/systemd/linger", since: 2}, {path: transientUnits, extensions: []string{".service", ".timer", ".path", ".socket"}, since: 2}},
	// What the package manager believes its packages to have brought, and runs as root when it changes them.
	[]place{{path: packageLists, extensions: []string{".md5sums", ".list", ".preinst", ".postinst", ".prerm", ".postrm", ".config", ".triggers"}, since: 2}, {path: packageChoices[0], since: 5}, {path: packageChoices[1], since: 5}},
	// Who may do what as root, and what the system bus, a link that goes up, or cloud-init starts.
	[]place{
		{path: "/usr/share/polkit-1", since: 3}, {path: "/usr/share/dbus-1/system-services", since: 3}, {path: "/usr/share/dbus-1/system.d", since: 3}, {path: "/var/lib/polkit-1", since: 3},
		{path: "/usr/lib/networkd-dispatcher", since: 3}, {path: "/usr/lib/binfmt.d", since: 3}, {path: "/usr/lib/pam.d", since: 3}, {path: "/var/lib/cloud/scripts", since: 3}, {path: "/var/lib/cloud/seed", since: 3},
	},
	// Settings of systemd and the kernel's tools until the next boot.
	[]place{{path: "/run/systemd/system.control", since: 3}, {path: "/run/systemd/network", since: 3}, {path: "/run/modprobe.d", since: 3}, {path: "/run/sysctl.d", since: 3}, {path: "/run/systemd/resolve/netif", since: 4}},
	[]place{
		{path: "/run/systemd/system.conf.d", since: 5}, {path: "/run/systemd/user.conf.d", since: 5}, {path: "/run/systemd/journald.conf.d", since: 5}, {path: "/run/systemd/logind.conf.d", since: 5},
		{path: "/run/systemd/resolved.conf.d", since: 5}, {path: "/run/systemd/timesyncd.conf.d", since: 5}, {path: "/run/systemd/networkd.conf.d", since: 5}, {path: "/run/NetworkManager/conf.d", since: 5},
		{path: "/run/netplan", since: 5}, {path: "/run/modules-load.d", since: 5}, {path: "/run/binfmt.d", since: 5}, {path: "/run/sysusers.d", since: 5}, {path: "/run/polkit-1", since: 5},
		// A shutdown that is to come, and who may log in until then.
		{path: "/run/systemd/shutdown", since: 5}, {path: "/run/nologin", since: 5},
	},
	// What systemd lays over /usr and /etc, and containers that other engines start again with each boot.
	[]place{
		{path: "/var/lib/extensions", sized: true, since: 5}, {path: "/var/lib/confexts", sized: true, since: 5}, {path: "/run/extensions", sized: true, since: 5}, {path: "/run/confexts", sized: true, since: 5},
		{path: "/usr/share/containers", since: 5}, {path: "/var/lib/docker/containers", shallow: true, added: true, since: 5}, {path: "/var/lib/containers/storage/overlay-containers", shallow: true, added: true, since: 5},
	},
	// Accounts are compared one by one: of their files, who may read and change them.
	[]place{
		{path: "/etc/passwd", only: true, since: 5}, {path: "/etc/shadow", only: true, since: 5}, {path: "/etc/group", only: true, since: 5}, {path: "/etc/gshadow", only: true, since: 5}, {path: "/etc/sudoers", only: true, since: 5},
	},
	onlyDirectories(),
)

func ofRoot() (all []place) {
	for _, name := range ofLogins {
		p := place{path: path.Join("/root", name), since: 1}
		switch {
		case slices.Contains([]string{".profile", ".bashrc", ".bash_profile", kubectlHome, ".docker", ".config/systemd"}, name):
			p.since = 0
		case slices.Contains(moreOfLogins, name):
			p.since = 5
		}
		all = append(all, p)
	}
	return all
}

func onlyDirectories() (all []place) {
	for _, dir := range directories {
		all = append(all, place{path: dir, plugin: true, added: true, only: true})
	}
	return all
}

// pluginPlaces are where plugins of networks keep state, credentials and sockets.
var pluginPlaces = func() (all []place) {
	for _, dir := range []string{
		"/run/calico", "/var/lib/calico", "/var/log/calico", "/run/cilium", "/var/lib/cilium", "/run/multus", "/var/lib/multus",
		"/run/antrea", "/var/lib/antrea", "/var/log/antrea", "/run/openvswitch", "/var/lib/openvswitch", "/var/log/openvswitch",
		"/run/ovn", "/var/lib/ovn", "/var/log/ovn", "/run/ovn-kubernetes", "/var/log/ovn-kubernetes", "/var/lib/ovn-ic",
		"/var/lib/weave", "/run/weave", "/var/lib/kube-router", "/var/lib/kube-proxy", "/run/nodelocaldns", "/run/nodeagent", "/run/istio-cni", "/run/aws-node", "/run/netns", "/sys/fs/bpf",
	} {
		all = append(all, place{path: dir, plugin: true, added: true})
	}
	return all
}()

// pluginPath says whether a path is at or below a place of plugins.
func pluginPath(name string) bool {
	p, ok := placeOf(name)
	return ok && p.plugin
}

// placesByPath are the places by their paths.
var placesByPath = func() map[string]place {
	all := map[string]place{}
	for _, p := range places {
		all[p.path] = p
	}
	return all
}()

// placeOf returns the innermost place that a path belongs to.
func placeOf(name string) (place, bool) {
	for dir := name; dir != "/" && dir != "."; dir = path.Dir(dir) {
		p, ok := placesByPath[dir]
		switch {
		case !ok:
		case dir == name || !p.only && !p.shallow || p.plugin || p.shallow && dir == path.Dir(name):
			return p, true
		default:
			if in, ok := homePlaceOf(name); ok {
				return in, true
			}
			return p, !p.only
		}
	}
	if path.Dir(name) == "/" {
		return placesByPath["/"], true
	}
	return homePlaceOf(name)
}

// unrecorded are paths below the places that are not looked at, as path.Match has them, with what is
// below them.
var unrecorded = []string{
	// Who may log in is compared account by account: see the package logins.
	"/etc/passwd*", "/etc/shadow*", "/etc/group*", "/etc/gshadow*", "/etc/subuid*", "/etc/subgid*", "/etc/sudoers", "/etc/.pwd.lock",
	// The store of the software that the agent installs, and its records.
	"/opt/slipway", "/var/lib/slipway*",
	// What the system writes by itself: clocks, caches, and what is made of other files that are looked at.
	"/etc/mtab", "/etc/.resolv.conf*", "/etc/ld.so.cache*", "/etc/adjtime", "/etc/.updated", "/etc/blkid*", "/etc/udev/hwdb.bin", "/usr/lib/udev/hwdb.bin",
	"/etc/aliases.db", "/etc/lvm/archive", "/etc/lvm/backup", "/etc/lvm/cache", "/etc/multipath/bindings", "/etc/multipath/wwids",
	"/etc/cups", "/etc/printcap", "/etc/network/run", "/etc/fwupd/remotes.d",
	// Links to the newest kernels.
	"/vmlinuz*", "/initrd.img*",
	// What a package manager leaves beside the files of a package.
	"*.dpkg-new", "*.dpkg-old", "*.dpkg-dist", "*.dpkg-bak", "*.dpkg-tmp", "*.ucf-new", "*.ucf-old", "*.ucf-dist", "*.rpmnew", "*.rpmsave", "*.rpmorig",
	// A lock.
	"/run/xtables.lock",
}

// unrecordedNames are those without a wildcard, unrecordedPatterns the others by their last directory, or
// by none for one that matches anywhere.
var unrecordedNames, unrecordedPatterns = func() (map[string]bool, map[string][]string) {
	names, patterns := map[string]bool{}, map[string][]string{}
	for _, p := range unrecorded {
		switch dir := path.Dir(p); {
		case !strings.ContainsAny(p, "*?"), strings.HasPrefix(p, "*."): // an extension
			names[p] = true
		case !strings.HasPrefix(p, "/") || strings.ContainsAny(dir, "*?"):
			patterns[""] = append(patterns[""], p)
		default:
			patterns[dir] = append(patterns[dir], p)
		}
	}
	return names, patterns
}()

func isUnrecorded(name string) bool {
	dir := path.Dir(name)
	if at, ok := inLogin(name); ok && slices.ContainsFunc(unrecordedOfLogins, func(p string) bool { ok, _ := path.Match(p, at); return ok }) {
		return true
	}
	if unrecordedNames[name] || unrecordedNames["*"+path.Ext(name)] || slices.Contains(directories, dir) {
		return true
	}
	for _, of := range []string{dir, ""} {
		for _, p := range unrecordedPatterns[of] {
			against := name
			if !strings.HasPrefix(p, "/") {
				against = path.Base(name)
			}
			if ok, _ := path.Match(p, against); ok {
				return true
			}
		}
	}
	return false
}
