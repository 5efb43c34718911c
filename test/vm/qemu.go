package vm

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strconv"
)

const (
	// memory of a machine in MiB: what a node needs and a file cache.
	memory     = 3072
	processors = 2
	// tapFD is the descriptor by which QEMU gets the network card that was made for it.
	tapFD = 3
)

// hardware is one machine as QEMU is told.
type hardware struct {
	disk Disk
	// image is the copy of the disk that is written to.
	image string
	// serial is the file of the console.
	serial string
	// sshPort of 127.0.0.1 leads to the machine's sshd.
	sshPort int
	// authorizedKey lets its holder in as root.
	authorizedKey string
	// plugged says that tapFD is a card in the network of hosts.
	plugged bool
}

// args are those of qemu-system-x86_64.
func (h hardware) args() []string {
	args := []string{
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		// Software emulation: the tests shall run where there is no virtualization.
		"-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max",
		"-smp", strconv.Itoa(processors), "-m", strconv.Itoa(memory),
		"-kernel", filepath.Join(h.disk.dir, "vmlinuz"), "-initrd", filepath.Join(h.disk.dir, "initrd.img"),
		"-append", "root=/dev/vda rw console=ttyS0",
		"-serial", "file:" + h.serial,
		// What the machine has written is in the file cache here, which outlives a kill of QEMU.
		"-drive", "if=virtio,format=raw,cache=unsafe,file=" + h.image,
		"-device", "virtio-rng-pci",
		"-smbios", "type=11,value=io.systemd.credential.binary:ssh.authorized_keys.root=" + base64.StdEncoding.EncodeToString([]byte(h.authorizedKey)),
		// restrict: the machine reaches nothing by this card
		"-netdev", fmt.Sprintf("user,id=management,restrict=on,hostfwd=tcp:127.0.0.1:%d-10.0.2.15:22", h.sshPort),
		"-device", "virtio-net-pci,netdev=management,mac=52:54:00:00:00:01",
	}
	if h.plugged {
		args = append(args,
			"-netdev", fmt.Sprintf("tap,id=hosts,fd=%d", tapFD),
			"-device", "virtio-net-pci,netdev=hosts,mac=52:54:00:00:00:02")
	}
	return args
}
