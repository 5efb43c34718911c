// Package kubecontrollers runs the few loops of kube-controller-manager that an
// API without workloads needs: garbage collection, deletion of namespaces,
// signing and cleaning of certificate requests, expiry of bootstrap tokens, and
// aggregation of ClusterRoles.
//
// Each runs under the name of the service account that Kubernetes' own RBAC
// bootstrap policy made for it, so none can do more than upstream allows it.
//
// The package imports component, pki's Client type and k8s.io/kubernetes.
package kubecontrollers
