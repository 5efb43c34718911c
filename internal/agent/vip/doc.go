// Package vip holds the control-plane address on a network interface of this
// host: adds it, tells the neighbours by gratuitous ARP, and removes it. It may
// be imported by the packages of the agent.
package vip
