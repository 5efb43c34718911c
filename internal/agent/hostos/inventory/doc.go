// Package inventory finds out what the host is: its system, capacity, addresses and identity
// (inventory.go), and what the machine itself is: processor, maker, disks, network interfaces,
// GPUs, firmware (the other files). That is read from /proc and /sys, by procfs where that bears a
// machine with one odd device. What cannot be read is left out, since a host must report whatever
// it is; what is reported keeps to the limits of the API, which takes a report whole or not at all.
//
// Rooms from link on may import it. It may import the API types, hostfs and nodeaddress.
package inventory
