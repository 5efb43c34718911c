// Package h1 sends requests over pooled HTTP/1.1 connections with TLS.
//
// A hook call is short and comes often. net/http's Transport serves each
// connection with two goroutines and hands every request to them and back; here
// the goroutine of the caller writes and reads itself, which halves what a call
// costs. Responses are parsed by net/http.
//
// A request is never sent twice: a connection that the peer closed while it was
// idle is noticed before anything is written to it.
//
// It imports the standard library only.
package h1
