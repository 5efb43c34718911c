// Package kube is the part of the Kubernetes API that an agent uses, without
// the client set: six resources, registered one by one, keep the agent small.
// It imports client-go's REST client only. Any package of the agent may import it.
package kube
