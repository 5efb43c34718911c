//go:build !linux

package durable

import "errors"

// The kubectl plugin runs on other systems, and writes files there that have neither flags of an
// inode nor are devices.

func inodeFlags(int) uint32 { return 0 }

func setInodeFlags(int, uint32) error { return errors.ErrUnsupported }

func mknodat(int, string, uint32, uint64) error { return errors.ErrUnsupported }
