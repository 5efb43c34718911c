// Package kubelet sets what the kubelet of this host is started with: the
// version side-by-side directories offer and the arguments only the provider
// knows. It may be imported by the packages of the agent.
package kubelet
