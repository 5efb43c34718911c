package kube

// fixedArgs do not depend on ServerOptions.
var fixedArgs = []string{
	"--authorization-mode=RBAC",
	"--enable-bootstrap-token-auth=true",
	"--service-account-issuer=https://kubernetes.default.svc",
	"--service-cluster-ip-range=10.96.0.0/16",
	"--allow-privileged=true",
	// Nobody reaches this API through a Service.
	"--endpoint-reconciler-type=none",
	// etcd compacts itself, also when its quota keeps this server from writing.
	"--etcd-compaction-interval=0",
	// An open watch would hold the shutdown for a minute.
	"--shutdown-delay-duration=0s",
	"--shutdown-send-retry-after=true",
	"--profiling=false",
	"--event-ttl=" + eventLife.String(),
}

// disabledAdmission are plugins for objects the plane has no controllers for;
// each would hold informers or refuse what it cannot resolve.
var disabledAdmission = []string{
	"ServiceAccount",
	"LimitRanger",
	"ResourceQuota",
	"PersistentVolumeClaimResize",
	"StorageObjectInUseProtection",
	"DefaultStorageClass",
	"DefaultIngressClass",
	"DefaultTolerationSeconds",
	"TaintNodesByCondition",
	"PodSecurity",
	"PodTopologyLabels",
	"Priority",
	"RuntimeClass",
	"PodGroupProtection",
	"PodGroupWorkloadExists",
	"NodeDeclaredFeatureValidator",
	"JobValidation",
	"PodResizeValidator",
}

// disabledAPIs are the built-in groups for running workloads, which the plane
// does not do. Each costs watch caches, OpenAPI documents and start-up time.
// The network and discovery groups stay: the allocators of core/v1 use them.
var disabledAPIs = []string{
	"apps/v1=false",
	"autoscaling/v1=false",
	"autoscaling/v2=false",
	"batch/v1=false",
	"node.k8s.io/v1=false",
	"policy/v1=false",
	"resource.k8s.io/v1=false",
	"scheduling.k8s.io/v1=false",
	"storage.k8s.io/v1=false",
}
