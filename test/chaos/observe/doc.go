// Package observe writes down what happens on a plane and in its clusters, by watches, and
// goes on over the death of an API server: it watches on from where it was, and where the
// server has forgotten that, lists and says what it did not see.
//
// It imports test/chaos/history.
package observe
