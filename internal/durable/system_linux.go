package durable

import "golang.org/x/sys/unix"

// inodeFlags returns what chattr(1) shows of an open file; 0 where the file system has no such flags.
func inodeFlags(fd int) uint32 {
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return 0
	}
	return flags
}

func setInodeFlags(fd int, flags uint32) error {
	return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags))
}

func mknodat(dir int, name string, mode uint32, device uint64) error {
	return unix.Mknodat(dir, name, mode, int(device))
}
