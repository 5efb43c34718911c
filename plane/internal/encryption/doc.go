// Package encryption keeps the Secrets of the plane encrypted in etcd, with a key
// that lies outside of etcd's directory.
//
//	config.go     the key: a file that kube-apiserver reads (EncryptionConfiguration)
//	key.go        Key: makes the file, and refuses to start without the keys that etcd's data needs
//	migration.go  Migration: encrypts what an earlier plane stored as plain text
//
// What is encrypted, and with which key, is never noted anywhere: the stored values
// tell (kube-apiserver begins each with the name of its key), so a crash or a restored
// copy of any of the files cannot make the notes wrong.
//
// It imports component and client-go; internal/serve imports it.
package encryption
