// Package schedule says when maintenance windows are open. It is pure: the time comes
// in as a value. The tz database is compiled in, since images without one are common.
//
// It may import the API only.
package schedule
