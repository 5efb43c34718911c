// Package support writes the archive of `slipway support-bundle`: what others need to find
// out what is wrong, without the secrets that internal/redact knows.
//
//	summary.md                       findings, what is missing, what is where
//	doctor.json                      the report of doctor
//	versions.json                    of this program and of the management cluster
//	objects/NAMESPACE/RESOURCE.yaml  of Cluster API, of Slipway, events, and of Secrets the keys
//	clusters/NAMESPACE/NAME/nodes.yaml
//	logs/NAMESPACE/POD/CONTAINER.log of the providers; of the container before, .previous.log
//	plane/                           logs and metrics of a plane of this machine
//	hosts/HOST/                      logs of its local hosts, on request
//	missing.txt                      what could not be had, and why
//
// Everything passes internal/redact on its way into the archive: there is no other
// way. Stages are an ordered slice; what one of them cannot get is told in the bundle and
// holds up none of the others.
//
// It is imported by internal/cli.
package support
