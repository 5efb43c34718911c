// Package hardware finds out what the machine itself is: processor, maker, disks, network
// interfaces, GPUs, firmware. It reads /proc and /sys, by procfs where that bears a machine
// with one odd device. What cannot be read is left out, since a host must report whatever
// it is; what is reported keeps to the limits of the API, which takes a report whole or not
// at all.
//
// It may import the API types and hostfs.
package hardware
