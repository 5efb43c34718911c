// Package bootstrap carries out a cloud-config on the host, in cloud-init's order: bootcmd,
// write_files, hostname, users, ntp, deferred files, runcmd. Every step is recorded before and
// after. kubeadmdata.go reads the configuration of kubeadm in it, and completes what that leaves
// open of the node's identity. It may be imported by the package effects.
package bootstrap
