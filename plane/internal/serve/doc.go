// Package serve assembles the plane and runs it: etcd, kube-apiserver, the
// manifests, a few Kubernetes controllers, Cluster API, and Slipway's own provider. It is
// all of `slipway serve` but its flags and its network namespace.
//
//	options.go, serve.go        what there is, in stages
//	health.go, status.go        what others see of it: plane.sock, status.json
//	collector.go, gctuner.go    memory at rest and at work
//	provider.go                 Slipway's provider: the controllers, manifests and rights that clusterctl installs,
//	                            run in the plane's process
//	lifecycle*.go               slipway-lifecycle beside the plane: a runtime extension is never a part of the process
//	                            that calls it. While it does not answer, hooks fail closed: Clusters wait. The kernel
//	                            ends it with the plane, however the plane ends
//	registration.go, registrar.go
//	                            the ExtensionConfigs of extensions beside the plane or in it: what clusterctl would
//	                            install, with the plane's CA, which is renewed
//	forward.go                  the API server of each workload cluster on 127.0.0.1 of the machine: one port a
//	                            Cluster, kept over restarts, so that a kubeconfig once handed out stays good. Nothing
//	                            of the machine's network is changed
//	proxy.go, outbound.go, proxyenv.go, refuse.go
//	                            the way to what other machines serve, for a plane that listens for them
//
// The plane's network namespace has no route out of it (see package network), and needs none for that last part: its
// controllers connect as client-go does behind any proxy, by HTTP CONNECT.
//
//	controllers ── HTTPS_PROXY ──> Proxy on 127.0.0.1 of the namespace
//	                                 └─ network.MachineDialer ──> 192.0.2.10:6443, from the machine
//
// What it keeps is in one state directory, of which statedir tells.
//
// The package imports every other package of the plane's API half, and internal/manager.
package serve
