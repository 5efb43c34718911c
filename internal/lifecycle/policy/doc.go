// Package policy is the controller of LifecyclePolicies. It says whether a policy can
// be executed (condition Ready): that it is valid, that what it refers to exists, and
// that its windows and those of other policies can be open at the same time. It counts
// the active runs and prunes the finished ones. It runs in the leader only.
//
//	readRuns        facts
//	validate        faults of a policy that was stored without its webhook
//	findRights      what the engine may not do in the namespace
//	findReferences  ConfigMaps and Secrets
//	findConflicts   windows that never overlap
//	findTopologies  Clusters without a topology that nothing holds back
//	prune           run history
//
// A policy that is not ready is executed all the same: what is missing may come.
//
// A second controller, in guard.go, labels Namespaces whose deletion the API server must ask
// the engine about.
package policy
