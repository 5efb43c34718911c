// Package clusterfile reads what the user gives to `slipway up -f` and tells,
// before anything is started, what is wrong with it and how many hosts it needs.
//
// It is pure: bytes in, objects or one error out.
package clusterfile
