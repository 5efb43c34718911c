// Package hostos holds what the agent asks and tells the operating system of its host:
// hostfs names its files, command runs its programs, kubelet sets what the kubelet is
// started with, network lists and removes what Kubernetes adds, inventory describes the
// host, hardware the machine under it. Nothing here decides anything.
//
// The room may import core/journal and core/operation, whose records and errors it fills.
package hostos
