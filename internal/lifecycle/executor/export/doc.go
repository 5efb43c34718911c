// Package export executes export steps: objects of the workload cluster are saved
// before it is deleted.
//
// The archive is a compressed tar of YAML files, in Secrets that nothing owns, so that they
// outlive the Cluster, in the policy's namespace or in one that it names:
//
//	<run>-<step>-<start>-<n>  its parts, each at most 900 KiB, under the key part
//	<run>-<step>-<start>      its index, under the key index.json: digest, size, parts
//
// The parts in their order, one after the other, are the tar.gz. The index is written
// last: an archive without one is not whole. The same objects give the same bytes.
//
// It may import the API, step and workload.
package export
