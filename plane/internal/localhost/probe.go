package localhost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/network"
)

// checkNamespaces makes, on a thread of its own, all that a host is made of: the
// namespaces, a bridge and a cable, and an overlay in the state directory.
func checkNamespaces(o PreflightOptions) []Finding {
	var finding *Finding
	err := network.OnOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP); err != nil {
			return fmt.Errorf("create namespaces: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("mount in a namespace of its own: %w", err)
		}
		if err := probeNetwork(); err != nil {
			finding = &Finding{CodeNetwork, SeverityError, err.Error(), "load the kernel's modules: `modprobe -a bridge veth`"}
		} else if err := probeOverlay(existing(o.StateDir)); err != nil {
			finding = &Finding{CodeOverlay, SeverityError, err.Error(),
				"name a directory on ext4, xfs or btrfs with --state-dir, and load the kernel's module: `modprobe overlay`"}
		}
		return nil
	})
	if err != nil {
		finding = &Finding{CodeNamespaces, SeverityError, "namespaces are not permitted: " + err.Error(),
			"local hosts need CAP_SYS_ADMIN and CAP_NET_ADMIN; in a container, start it with `--privileged`"}
	}
	if finding == nil {
		return nil
	}
	return []Finding{*finding}
}

func probeNetwork() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "br0"
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return fmt.Errorf("create a bridge: %w", err)
	}
	attrs.Name = "probe"
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0"}); err != nil {
		return fmt.Errorf("create a veth pair: %w", err)
	}
	return nil
}

// probeOverlay mounts /usr under a layer in dir, as a host does.
func probeOverlay(dir string) (err error) {
	tmp, err := os.MkdirTemp(dir, ".preflight-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	for _, d := range []string{"upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(tmp, d), 0o755); err != nil {
			return err
		}
	}
	merged := filepath.Join(tmp, "merged")
	data := fmt.Sprintf("lowerdir=/usr,upperdir=%s,workdir=%s", filepath.Join(tmp, "upper"), filepath.Join(tmp, "work"))
	if err := unix.Mount("overlay", merged, "overlay", 0, data); err != nil {
		return fmt.Errorf("mount an overlay in %s: %w", dir, err)
	}
	return unix.Unmount(merged, 0)
}
