// Package backup writes all of a plane into one encrypted file, and makes a plane of such a file.
//
// A backup is a tar archive, compressed by gzip and encrypted by age (https://age-encryption.org):
//
//	backup.json   the Manifest, first: what is in it, with sizes and SHA-256
//	etcd.db       a snapshot of etcd, taken while the plane serves
//	instance.json pki/ encryption/
//
// Nothing else of a state directory is needed: certificates and kubeconfigs are made anew, host bundles are
// loaded again, and local hosts belong to the machine. Whoever makes backups needs the public half of a key only.
//
//	archive.go  the file: its entries, in their order, and what of them is believed
//	create.go   a backup of the plane that serves a state directory
//	content.go  what a snapshot holds, as a real etcd reads it
//	restore.go  a plane of a backup
package backup
