// Package console is `slipway ui`: pages in the browser that show hosts, clusters and
// lifecycle runs as they change, with the rights of the user who started it.
//
// A request passes the guard, which admits one browser of this machine; a page then reads
// objects through package watch, makes of them what package view says and renders a
// template. The same page is a stream of server-sent events below /live: it is rendered
// again when something changes, and sent when it looks different. What changes something
// is a POST, done with the user's own client; nothing else writes.
//
// A Secret is read for a kubeconfig or the log of a Job that a user requests, and never kept. The console keeps
// nothing: it ends with the process.
//
// Files in assets that are not ours are named there.
package console
