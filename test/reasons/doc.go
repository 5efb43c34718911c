// Package reasons holds, as a test, that the reasons of conditions are part of the API: who
// waits for one, or alerts on it, finds it in a package of api with its meaning, and no
// controller sets another.
package reasons
