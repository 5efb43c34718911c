// Package encryption keeps the Secrets of the plane encrypted in etcd, with a key
// that lies outside of etcd's directory.
//
//	config.go     the key: a file that kube-apiserver reads (EncryptionConfiguration)
//	key.go        Key: makes the file, and refuses to start where etcd has Secrets and the file is gone
package encryption
