// Package docs holds the documents to what they say: links and anchors lead
// somewhere, commands, flags, variables, metrics and messages exist, and what is
// generated is not stale. What tables of docs/contracts.md and docs/hazards.md
// promise is held by test/conformance/provider; here is held which of it the deep suite
// alone proves.
//
// It may import what a reference is generated from, and the rules of test/conformance/provider.
package docs
