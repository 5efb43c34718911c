// Package bootstrap carries out a cloud-config on the host, in cloud-init's
// order: bootcmd, write_files, hostname, users, ntp, deferred files, runcmd.
// Every step is recorded before and after. It may be imported by the
// package effects.
package bootstrap
